//! Integration tests of the pool, in one program: what they share is compiled and linked once.
//! Those that count what is allocated are a program of their own, `tests/alone`.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod support;

mod conformance;
mod faults;
mod journal;
mod memory;
mod page_provider;
mod prewarm;
mod sampling;
mod shrink;
mod tiers;
mod ways;
