//! Tests of the pool that are not in the same program as all others (`tests/it`): the allocator counts.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[allow(dead_code, reason = "this program uses its own part")]
#[path = "../it/support.rs"]
mod support;

mod replacement;
