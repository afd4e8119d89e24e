//! Polder: an embedded, ordered key-value store for data larger than memory.
