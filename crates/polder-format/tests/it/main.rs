//! Integration tests of what lies on disk, in one program: what they share is compiled and linked
//! once.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod mutation;
mod tuple;
