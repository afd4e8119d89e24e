//! The processor's own counters of one thread, where the kernel permits them (`perf_event_open`).
//!
//! Each thread of a workload opens its own three counters around its loop, in user mode only:
//! threads of the engine itself are not in them, nor is the kernel's work.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_HW_CACHE: u32 = 3;
const PERF_COUNT_HW_INSTRUCTIONS: u64 = 1;
const PERF_COUNT_HW_CACHE_MISSES: u64 = 3;
/// Data TLB (3), on reads (0), misses (1).
const DTLB_READ_MISSES: u64 = 3 | (1 << 16);

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

/// What the counters gave, in all threads together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) instructions: f64,
    pub(crate) cache_misses: f64,
    pub(crate) dtlb_misses: f64,
}

impl Counts {
    /// Adds another thread's.
    pub(crate) fn add(&mut self, other: Counts) {
        self.instructions += other.instructions;
        self.cache_misses += other.cache_misses;
        self.dtlb_misses += other.dtlb_misses;
    }
}

/// The counters of this thread.
#[derive(Debug)]
pub(crate) struct Counters {
    instructions: OwnedFd,
    cache_misses: OwnedFd,
    dtlb_misses: OwnedFd,
}

impl Counters {
    /// Opens them, not counting yet.
    pub(crate) fn open() -> io::Result<Counters> {
        Ok(Counters {
            instructions: open(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS)?,
            cache_misses: open(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES)?,
            dtlb_misses: open(PERF_TYPE_HW_CACHE, DTLB_READ_MISSES)?,
        })
    }

    /// Begins to count.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.all(IOC_ENABLE)
    }

    /// Ends counting, and says what came together.
    pub(crate) fn stop(&self) -> io::Result<Counts> {
        self.all(IOC_DISABLE)?;
        Ok(Counts {
            instructions: read(&self.instructions)?,
            cache_misses: read(&self.cache_misses)?,
            dtlb_misses: read(&self.dtlb_misses)?,
        })
    }

    fn all(&self, request: libc::c_ulong) -> io::Result<()> {
        for counter in [&self.instructions, &self.cache_misses, &self.dtlb_misses] {
            // SAFETY: enabling and disabling take no memory of ours; the descriptor is open.
            if unsafe { libc::ioctl(counter.as_raw_fd(), request as _, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

fn open(kind: u32, config: u64) -> io::Result<OwnedFd> {
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
        assert!(sum > 0 && counts.instructions > 100_000.0);
    }
}
