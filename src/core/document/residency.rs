//! What must never be in a document: tensors spelled as JSON, and secrets.
