//! Tests of the store that are not in the same process as all others (`tests/it`): that operations
//! wait for each other within bounds, which threads of other tests would spoil; of a process that
//! forks, which no other thread should be busy in, and of one that goes to another directory; of the
//! memory that a process has in all; and of what it allocates.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[allow(dead_code, reason = "the other program uses the rest")]
#[path = "../it/support.rs"]
mod support;

mod allocations;
mod crowd;
mod elsewhere;
mod fairness;
mod fork;
mod resident;
mod small;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The tests' turn: one that holds it has the process to itself.
static TURN: Mutex<()> = Mutex::new(());

fn my_turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
