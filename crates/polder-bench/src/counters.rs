//! The processor's own counters of one thread, where the kernel permits them (`perf_event_open`).
//!
//! Each thread of a workload opens its own counters around its loop, in user mode only: threads of
//! the engine itself are not in them, nor is the kernel's work.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use serde::{Deserialize, Serialize};

const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_HW_CACHE: u32 = 3;

/// Makes the events, with what is said of each in one place: what people know it by, the field of a
/// result, and the kernel's kind and number.
macro_rules! events {
    ($($event:ident $name:literal $field:ident ($kind:expr, $number:expr),)*) => {
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

            /// The kernel's kind and number.
            fn numbers(self) -> (u32, u64) {
                match self {
                    $(Event::$event => ($kind, $number)),*
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
    Instructions "instructions" instructions_per_op (PERF_TYPE_HARDWARE, 1),
    CacheMisses "cache misses" cache_misses_per_op (PERF_TYPE_HARDWARE, 3),
    // Data TLB (3), on reads (0), misses (1).
    DtlbMisses "dTLB misses" dtlb_misses_per_op (PERF_TYPE_HW_CACHE, 3 | (1 << 16)),
    Cycles "cycles" cycles_per_op (PERF_TYPE_HARDWARE, 0),
    BranchMisses "branch misses" branch_misses_per_op (PERF_TYPE_HARDWARE, 5),
    FrontendStalls "frontend stalls" frontend_stalls_per_op (PERF_TYPE_HARDWARE, 7),
}

const EVENTS: usize = 6;

/// Both times are read with the value, to scale for the turns that the counter was not on.
const READ_FORMAT_TIMES: u64 = 0b11;
/// The flag bits of the attributes: disabled at first, without kernel and hypervisor.
const FLAGS: u64 = 1 | (1 << 5) | (1 << 6);

/// Close the descriptor in programs that this one starts.
const OPEN_FLAGS: libc::c_ulong = 1 << 3;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;

/// `struct perf_event_attr` in its first version; the kernel takes what is missing as zero.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

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
pub(crate) struct Counters([Option<OwnedFd>; EVENTS]);

impl Counters {
    /// Opens them, not counting yet: those that the processor has.
    ///
    /// # Errors
    /// Those of the first, if it has none.
    pub(crate) fn open() -> io::Result<Counters> {
        let instructions = open(Event::ALL[0])?;
        let mut counters = [const { None }; EVENTS];
        for (counter, event) in counters.iter_mut().zip(Event::ALL).skip(1) {
            *counter = open(event).ok();
        }
        counters[0] = Some(instructions);
        Ok(Counters(counters))
    }

    /// Begins to count.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.all(IOC_ENABLE)
    }

    /// Ends counting, and says what came together.
    pub(crate) fn stop(&self) -> io::Result<Counts> {
        self.all(IOC_DISABLE)?;
        let mut counts = Counts([None; EVENTS]);
        for (count, counter) in counts.0.iter_mut().zip(&self.0) {
            *count = counter.as_ref().map(read).transpose()?;
        }
        Ok(counts)
    }

    fn all(&self, request: libc::c_ulong) -> io::Result<()> {
        for counter in self.0.iter().flatten() {
            // SAFETY: enabling and disabling take no memory of ours; the descriptor is open.
            if unsafe { libc::ioctl(counter.as_raw_fd(), request as _, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

fn open(event: Event) -> io::Result<OwnedFd> {
    let (kind, config) = event.numbers();
    let attributes = Attributes {
        kind,
        size: mem::size_of::<Attributes>() as u32,
        config,
        sample_period: 0,
        sample_type: 0,
        read_format: READ_FORMAT_TIMES,
        flags: FLAGS,
        wakeup_events: 0,
        breakpoint_type: 0,
        config1: 0,
    };
    let (this_thread, any_cpu, no_group) = (0, -1, -1);
    // SAFETY: the attributes are laid out as the kernel's first version and say their own size;
    // the kernel only reads them.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_cpu,
            no_group,
            OPEN_FLAGS,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call gave a new descriptor, which nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// The value, scaled up for the time in which the counter had to share its place.
fn read(counter: &OwnedFd) -> io::Result<f64> {
    let mut words = [0u64; 3];
    let bytes = mem::size_of_val(&words);
    // SAFETY: the buffer is as long as the call is told, and any bytes are valid in it.
    let got = unsafe { libc::read(counter.as_raw_fd(), words.as_mut_ptr().cast(), bytes) };
    match usize::try_from(got) {
        Err(_) => return Err(io::Error::last_os_error()),
        Ok(got) if got < bytes => return Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => {}
    }
    let [value, enabled, running] = words.map(|word| word as f64);
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
        counters.start().unwrap();
        let sum: u64 = (0..100_000u64).map(std::hint::black_box).sum();
        let counts = counters.stop().unwrap();
        assert!(sum > 0 && counts.of(Event::Instructions).unwrap() > 100_000.0);
    }
}
