//! Threads that do the same thing for some time, and what that took.
//!
//! Each thread does *turns*, some dozen operations each, at least one, and looks after each
//! whether the time is over: the flag costs nothing beside them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::meter::Stop;
use crate::team::{Done, Team};

/// What threads have done together; see [`Done`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Driven {
    pub(crate) ops: u64,
    pub(crate) seconds: f64,
    pub(crate) cpu_s: f64,
    pub(crate) shootdowns: Option<u64>,
}

impl Driven {
    /// Operations a second.
    pub(crate) fn per_s(&self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9)
    }

    /// What so much of something is for each operation.
    pub(crate) fn an_op(&self, amount: f64) -> f64 {
        amount / self.ops.max(1) as f64
    }
}

/// Has a team's threads do turns until its time is over. `worker` makes the turns of a thread, each
/// of which gives the number of its operations; one without any ends it for all.
pub(crate) fn drive<W>(
    team: Team<'_>,
    worker: impl Fn(usize) -> W + Sync,
) -> Result<Driven, BenchError>
where
    W: FnMut() -> Result<u64, BenchError>,
{
    let turns = |_, mut turn: W, stop: &Stop<'_>| {
        let mut ops = 0;
        loop {
            match turn()? {
                0 => stop.set(),
                done => ops += done,
            }
            if stop.is_set() {
                return Ok(ops);
            }
        }
    };
    let done = team.run(|thread| Ok(worker(thread)), turns)?;
    let Done { seconds, cpu_s, shootdowns, readings, .. } = done;
    Ok(Driven { ops: readings.into_iter().sum(), seconds, cpu_s, shootdowns })
}

/// Has `threads` threads do so many turns, which they take as they come.
pub(crate) fn drive_turns<W>(
    threads: usize,
    turns: u64,
    interrupt: &Interrupt,
    worker: impl Fn(usize) -> W + Sync,
) -> Result<(), BenchError>
where
    W: FnMut() -> Result<(), BenchError>,
{
    let left = &AtomicU64::new(turns);
    drive(Team { threads, counts: false, limit: None, interrupt }, |thread| {
        let mut turn = worker(thread);
        move || {
            if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err() {
                return Ok(0);
            }
            turn()?;
            Ok(1)
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests;
