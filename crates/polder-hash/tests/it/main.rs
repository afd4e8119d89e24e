//! Integration tests of the index, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod support;

mod collide;
mod faults;
mod hostile;
mod model;
mod redo;
mod swizzle;
mod threads;
