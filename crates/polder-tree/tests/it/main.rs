//! Integration tests of the tree and the heap, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod support;

mod ahead;
mod bulk;
mod compact;
mod faults;
mod heap;
mod heap_redo;
mod many;
mod many_ranges;
mod model;
mod neighbours;
mod redo;
mod snapshots;
mod swizzle;
mod threads;
mod tree_redo;
