//! Seeds derived from a run's root seed (BLAKE3, Lensemble RFC-0009 section 4).
