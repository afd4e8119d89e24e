//! What the parts of the ladder have in common: `use crate::ladder::prelude::*`.

pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::sync::atomic::Ordering::Relaxed;
pub(crate) use std::time::Instant;

pub(crate) use polder_pool::{AccessHint, Pool, PoolStats, Space, Translation};
pub(crate) use polder_tree::{KINDS, Tree};

pub(crate) use super::clock::{Driven, drive, drive_turns};
pub(crate) use super::measured::Measured;
pub(crate) use super::setup::{Setup, open, settle};
pub(crate) use super::side::Side;
pub(crate) use super::stores::{Loaded, Ran, ample_log, growth_bytes};
pub(crate) use super::trees::{Keys, PAGE, Stored, Subject, bytes_of, records_of};
pub(crate) use crate::dist::{Chooser, Dist, YCSB_THETA};
pub(crate) use crate::error::BenchError;
pub(crate) use crate::progress::turns;
pub(crate) use crate::random::RngExt;
pub(crate) use crate::records::scramble;
pub(crate) use crate::tpcc::Mix;
