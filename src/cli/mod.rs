//! The commands: each reads its arguments, asks the layers below, and tells a person or a program what came out.

pub mod serve;
