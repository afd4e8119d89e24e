//! The processor's own counters of one thread, where the kernel permits them (`perf_event_open`).
//!
//! Each thread of a workload opens its own counters around its loop, in user mode only: threads of
//! the engine itself are not in them, nor is the kernel's work.

use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware};
use perf_event::{Builder, Counter};
use serde::{Deserialize, Serialize};

/// Makes the events, with what is said of each in one place: what people know it by, the field of a
/// result, and what the kernel calls it.
macro_rules! events {
    ($($event:ident $name:literal $field:ident $kernels:expr,)*) => {
        /// What is counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Event {
            $($event),*
        }

        impl Event {
            /// All; those that every processor counts come first.
            pub(crate) const ALL: [Event; EVENTS] = [$(Event::$event),*];

            /// What people know it by.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Event::$event => $name),*
                }
            }

            /// A counter of this thread in user mode, not counting yet.
            fn open(self) -> io::Result<Counter> {
                match self {
                    $(Event::$event => Builder::new($kernels).build()),*
                }
            }
        }

        /// What the processor counted, an operation; `None` without `--counters`, or where the
        /// kernel refuses them.
        #[derive(Debug, Clone, Default, Serialize, Deserialize)]
        pub(crate) struct Counted {
            $($field: Option<f64>),*
        }

        impl Counted {
            /// What `of` says of each event.
            pub(crate) fn each(of: impl Fn(Event) -> Option<f64>) -> Counted {
                Counted { $($field: of(Event::$event)),* }
            }

            /// What is known of an event.
            pub(crate) fn of(&self, event: Event) -> Option<f64> {
                match event {
                    $(Event::$event => self.$field),*
                }
            }
        }
    };
}

events! {
    Instructions "instructions" instructions_per_op Hardware::INSTRUCTIONS,
    CacheMisses "cache misses" cache_misses_per_op Hardware::CACHE_MISSES,
    DtlbMisses "dTLB misses" dtlb_misses_per_op DTLB_MISSES,
    Cycles "cycles" cycles_per_op Hardware::CPU_CYCLES,
    BranchMisses "branch misses" branch_misses_per_op Hardware::BRANCH_MISSES,
    FrontendStalls "frontend stalls" frontend_stalls_per_op Hardware::STALLED_CYCLES_FRONTEND,
}

const EVENTS: usize = 6;

const DTLB_MISSES: Cache =
    Cache { which: CacheId::DTLB, operation: CacheOp::READ, result: CacheResult::MISS };

/// What the counters gave, in all threads together; `None` for what the processor does not count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts([Option<f64>; EVENTS]);

impl Default for Counts {
    /// Nothing so far.
    fn default() -> Counts {
        Counts([Some(0.0); EVENTS])
    }
}

impl Counts {
    /// Adds another thread's.
    pub(crate) fn add(&mut self, other: Counts) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum = sum.zip(count).map(|(sum, count)| sum + count);
        }
    }

    /// Those of several threads together.
    pub(crate) fn sum(threads: Vec<Counts>) -> Counts {
        let mut all = Counts::default();
        threads.into_iter().for_each(|counts| all.add(counts));
        all
    }

    /// How often.
    pub(crate) fn of(self, event: Event) -> Option<f64> {
        self.0[event as usize]
    }
}

/// The counters of this thread.
#[derive(Debug)]
pub(crate) struct Counters([Option<Counter>; EVENTS]);

impl Counters {
    /// Opens them, not counting yet: those that the processor has.
    ///
    /// # Errors
    /// Those of the first, if it has none.
    pub(crate) fn open() -> io::Result<Counters> {
        let first = Event::ALL[0].open()?;
        let mut counters = Event::ALL.map(|event| event.open().ok());
        counters[0] = Some(first);
        Ok(Counters(counters))
    }

    /// Begins to count.
    pub(crate) fn start(mut self) -> io::Result<Counters> {
        self.0.iter_mut().flatten().try_for_each(Counter::enable)?;
        Ok(self)
    }

    /// Ends counting, and says what came together.
    pub(crate) fn stop(mut self) -> io::Result<Counts> {
        self.0.iter_mut().flatten().try_for_each(Counter::disable)?;
        let mut counts = Counts([None; EVENTS]);
        for (count, counter) in counts.0.iter_mut().zip(&mut self.0) {
            *count = counter.as_mut().map(read).transpose()?;
        }
        Ok(counts)
    }
}

/// The value, scaled up for the time in which the counter had to share its place.
fn read(counter: &mut Counter) -> io::Result<f64> {
    let read = counter.read_count_and_time()?;
    let [value, enabled, running] =
        [read.count, read.time_enabled, read.time_running].map(|number| number as f64);
    Ok(if running > 0.0 { value * enabled / running } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_thread_could_not_count_is_not_known() {
        let mut sum = Counts::default();
        sum.add(Counts([Some(1.0), Some(2.0), Some(3.0), Some(4.0), Some(5.0), None]));
        sum.add(Counts([Some(1.0), None, Some(3.0), Some(4.0), Some(5.0), Some(6.0)]));
        assert_eq!(Event::ALL.map(|event| event as usize), [0, 1, 2, 3, 4, 5]);
        let of = Event::ALL.map(|event| sum.of(event));
        assert_eq!(of, [Some(2.0), None, Some(6.0), Some(8.0), Some(10.0), None]);
    }

    #[test]
    fn counters_count_or_say_why_not() {
        let counters = match Counters::open() {
            Ok(counters) => counters,
            Err(error) => {
                eprintln!("skipped, no counters here: {error}");
                return;
            }
        };
        let counters = counters.start().unwrap();
        let sum: u64 = (0..100_000u64).map(std::hint::black_box).sum();
        let counts = counters.stop().unwrap();
        assert!(sum > 0 && counts.of(Event::Instructions).unwrap() > 100_000.0);
    }
}
