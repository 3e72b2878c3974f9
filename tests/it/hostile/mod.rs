//! Clients that are broken or mean: what they send costs little, is answered in the one form, and leaves nothing.

mod archives;
mod containers;
mod large;
mod paths;
mod slow;
