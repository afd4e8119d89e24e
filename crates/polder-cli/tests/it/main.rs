//! Integration tests of the command line, in one program: what they share is compiled and linked
//! once.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod support;
mod vectors;

mod damage;
mod demo;
mod errors;
mod events;
mod exchange;
mod looking;
mod readme;
mod real_data;
mod round_trip;
mod short;
