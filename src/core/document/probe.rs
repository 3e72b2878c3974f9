//! The public probe, a safetensors file with hashes of its own (Lensemble RFC-0004 section 3).
