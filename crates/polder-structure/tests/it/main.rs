//! What structures on pages share, tested from outside, as one program.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod edit;
