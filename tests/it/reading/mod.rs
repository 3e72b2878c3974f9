//! Everything that is given out: ranges, conditions, digests, and never a damaged byte.

mod conditions;
mod damage;
mod failures;
mod names;
mod resource;
mod verify;
