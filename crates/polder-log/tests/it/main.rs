//! Integration tests of the log, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod checkpoints;
mod finding;
mod growth;
mod room;
mod support;
mod sync_disk;
mod syncs;
mod torn;
