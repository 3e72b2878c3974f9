//! A federation from its first round to its audit, with everything that goes wrong on the way.

mod cases;
mod corruption;
mod growing;
mod story;
