//! Integration tests of the indexes, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod support;

mod bad_input;
mod beyond_memory;
mod hostile;
mod ivf;
mod model;
mod redo;
mod searches;
mod sift;
mod threads;
mod vamana;
