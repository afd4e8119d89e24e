//! Threads that do the same thing for some time, and what that took.
//!
//! Each thread does *turns*, some dozen operations each, at least one, and looks after each
//! whether the time is over: the flag costs nothing beside them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

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

/// Has `threads` threads do turns for so many seconds, which may be infinite. `worker` makes the
/// turns of a thread, each of which gives the number of its operations; one without any ends it for
/// all.
pub(crate) fn drive<W>(
    threads: usize,
    seconds: f64,
    interrupt: &Interrupt,
    worker: impl Fn(usize) -> W + Sync,
) -> Result<Driven, BenchError>
where
    W: FnMut() -> Result<u64, BenchError>,
{
    let limit = Duration::try_from_secs_f64(seconds).ok();
    let team = Team { threads, counters: false, limit, interrupt };
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

/// Has `threads` threads do so many turns, of `ops` operations each, which they take as they come.
pub(crate) fn drive_turns<W>(
    threads: usize,
    turns: u64,
    ops: u64,
    interrupt: &Interrupt,
    worker: impl Fn(usize) -> W + Sync,
) -> Result<(), BenchError>
where
    W: FnMut() -> Result<(), BenchError>,
{
    let left = &AtomicU64::new(turns);
    drive(threads, f64::INFINITY, interrupt, |thread| {
        let mut turn = worker(thread);
        move || {
            if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err() {
                return Ok(0);
            }
            turn()?;
            Ok(ops)
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests;
