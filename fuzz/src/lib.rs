//! The checks that the fuzz targets run.

pub mod checks;
pub mod documents;
