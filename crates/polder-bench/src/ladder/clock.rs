//! Threads that do the same thing for some time, and what that took.
//!
//! Each thread does *turns*, some dozen operations each, at least one, and looks after each
//! whether the time is over: the clock and the flag cost nothing beside them. Timed is the span
//! from the moment at which the first thread begins, when all are ready, to the end of the last
//! one's last turn. What the system counts is read before the first turn, while all wait, and
//! after the last.

use std::fs;
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::usage::Usage;

/// How often the thread that waits for the end looks for an error or an interrupt.
const PATIENCE: Duration = Duration::from_millis(20);
/// Longer than any number of operations takes that is asked for.
pub(crate) const AN_HOUR: f64 = 3600.0;

/// What threads have done together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Driven {
    pub(crate) ops: u64,
    pub(crate) seconds: f64,
    /// Processor time of the whole process, its background threads too.
    pub(crate) cpu_s: f64,
    /// Interrupts that made a processor forget addresses, of the whole system: the kernel does not
    /// say for which process. `None` where it does not say at all.
    pub(crate) shootdowns: Option<u64>,
}

/// Has `threads` threads do turns for so many seconds. `worker` makes the turns of a thread, each
/// of which gives the number of its operations; one without any ends it for all.
pub(crate) fn drive<W>(
    threads: usize,
    seconds: f64,
    interrupt: &Interrupt,
    worker: impl Fn(usize) -> W + Sync,
) -> Result<Driven, BenchError>
where
    W: FnMut() -> Result<u64, BenchError>,
{
    let stop = AtomicBool::new(false);
    // Whether to begin, once that is known, and when the first thread did.
    let (gate, began) = (OnceLock::new(), OnceLock::new());
    let begin = || *began.get_or_init(Instant::now);
    let work = |thread, ready: mpsc::Sender<()>| -> Result<(u64, Instant), BenchError> {
        let mut turn = worker(thread);
        let _ = ready.send(());
        // The end of all senders tells that no more will be ready.
        drop(ready);
        if !gate.wait() {
            return Ok((0, Instant::now()));
        }
        begin();
        let mut ops = 0;
        loop {
            match turn() {
                Ok(0) => stop.store(true, Ordering::Relaxed),
                Ok(done) => ops += done,
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            if stop.load(Ordering::Relaxed) {
                return Ok((ops, Instant::now()));
            }
        }
    };
    let limit = Duration::from_secs_f64(seconds);
    thread::scope(|scope| {
        let (work, mut workers) = (&work, Vec::new());
        let (sender, ready) = mpsc::channel();
        for thread in 0..threads {
            let sender = sender.clone();
            let spawned = thread::Builder::new().spawn_scoped(scope, move || work(thread, sender));
            match spawned {
                Ok(worker) => workers.push(worker),
                Err(source) => {
                    // Those that wait end.
                    let _ = gate.set(false);
                    return Err(BenchError::Threads { started: thread, wanted: threads, source });
                }
            }
        }
        drop(sender);
        let all_ready = ready.iter().count() == threads;
        let (usage, shootdowns) = (Usage::now(), shootdowns());
        // A thread that was not ready has panicked: it is joined below.
        let _ = gate.set(all_ready);
        stop.fetch_or(!all_ready, Ordering::Relaxed);
        let started = begin();
        while !stop.load(Ordering::Relaxed) && !interrupt.is_set() {
            let left = limit.saturating_sub(started.elapsed());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(PATIENCE));
        }
        stop.store(true, Ordering::Relaxed);
        let (mut ops, mut ended) = (0, started);
        for worker in workers {
            let (done, at) =
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            ops += done;
            ended = ended.max(at);
        }
        interrupt.check()?;
        Ok(Driven {
            ops,
            seconds: (ended - started).as_secs_f64(),
            cpu_s: Usage::now().cpu_s - usage.cpu_s,
            shootdowns: self::shootdowns()
                .zip(shootdowns)
                .map(|(now, before)| now.saturating_sub(before)),
        })
    })
}

/// Has `threads` threads do turns until `ops` operations are done, and gives how many they were.
/// The turns end by themselves: see [`drive`].
pub(crate) fn drive_all<W>(
    threads: usize,
    ops: u64,
    interrupt: &Interrupt,
    worker: impl Fn(usize) -> W + Sync,
) -> Result<u64, BenchError>
where
    W: FnMut() -> Result<u64, BenchError>,
{
    let Driven { ops: done, seconds, .. } = drive(threads, AN_HOUR, interrupt, worker)?;
    if done < ops {
        let why = format!("only {done} of {ops} operations were done, in {seconds:.0} s");
        return Err(BenchError::Options(why));
    }
    Ok(done)
}

/// The same of so many turns, of `ops` operations each, which threads take as they come.
pub(crate) fn drive_turns<W>(
    threads: usize,
    turns: u64,
    ops: u64,
    interrupt: &Interrupt,
    worker: impl Fn(usize) -> W + Sync,
) -> Result<u64, BenchError>
where
    W: FnMut() -> Result<(), BenchError>,
{
    let left = &AtomicU64::new(turns);
    drive_all(threads, turns * ops, interrupt, |thread| {
        let mut turn = worker(thread);
        move || {
            if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err() {
                return Ok(0);
            }
            turn()?;
            Ok(ops)
        }
    })
}

/// TLB shootdowns of all processors since the system began.
fn shootdowns() -> Option<u64> {
    sum_of_line(&fs::read_to_string("/proc/interrupts").ok()?, "TLB:")
}

/// The sum of the numbers behind a label.
fn sum_of_line(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
    Some(line.split_whitespace().map_while(|word| word.parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests;
