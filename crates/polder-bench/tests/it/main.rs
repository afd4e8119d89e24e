//! Integration tests of the program, in one program: what they share is compiled and linked once.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod compare;
mod replay;
#[cfg(feature = "translations")]
mod translations;
