//! The Merkle tree over a data set's episodes (Lensemble RFC-0014 section 5).
