//! B+tree on Polder's buffer pool.

pub mod node;
