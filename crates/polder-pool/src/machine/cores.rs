//! Which cores share a cache, and on which one a thread runs.
//!
//! Cores are numbered as the kernel does, and put in *groups*: those that share their last cache,
//! or at most so many of them, so that a line that only they write to never crosses between caches
//! (scalecache-2025 3.1). Only cores that are online count: a machine may have room for many more.
//! The answer to "where am I" is old as soon as it is given; it may only decide which threads share
//! a line, never whether something is right.
//!
//! The kernel writes a thread's core into the thread's *rseq* area whenever it comes to run. glibc
//! registers one for each thread since 2.35 and says where it lies; it is looked up when the
//! program runs, so that an older glibc, or musl, does as well: then `sched_getcpu` answers, and
//! where that does not work each thread sticks to a group of its own choice.

#![cfg(not(loom))]

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::ptr;

/// More groups are merged with their neighbours.
pub(crate) const MAX_GROUPS: usize = 512;

/// How many cores make a group where the system does not tell of caches.
const CORES_A_GROUP: usize = 4;

/// Where the system tells of its cores.
const CPUS: &str = "/sys/devices/system/cpu";

/// Which cores make a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// All that share their last cache.
    ByCache,
    /// At most so many of them.
    AtMost(usize),
}

/// A group of cores, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupNo(u16);

impl GroupNo {
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

const _: () = assert!(MAX_GROUPS <= u16::MAX as usize + 1, "a group's number fits");

/// The groups of this machine's cores.
#[derive(Debug)]
pub(crate) struct Groups {
    of_core: Box<[GroupNo]>,
    count: usize,
    current: CurrentCore,
}

impl Groups {
    /// Those of this machine, as the system tells of its caches; where it does not, of cores that
    /// are neighbours.
    pub(crate) fn of_machine(grouping: Grouping) -> Groups {
        Groups::read(Path::new(CPUS), grouping)
    }

    /// The same where a directory tells what the system's does.
    fn read(cpus: &Path, grouping: Grouping) -> Groups {
        let cores = online(cpus);
        let mut known: Vec<String> = Vec::new();
        let mut caches = Vec::with_capacity(cores.len());
        for core in &cores {
            let sharers = last_cache(&cpus.join(format!("cpu{core}/cache")));
            let cache = match sharers {
                Some(sharers) => known.iter().position(|k| *k == sharers).unwrap_or_else(|| {
                    known.push(sharers);
                    known.len() - 1
                }),
                None => caches.last().copied().unwrap_or(0),
            };
            caches.push(cache);
        }
        let most = match grouping {
            Grouping::AtMost(cores) => cores.max(1),
            Grouping::ByCache if known.is_empty() => CORES_A_GROUP,
            Grouping::ByCache => usize::MAX,
        };
        Groups::new(by_core(&cores, &parts(&caches, most)))
    }

    /// `groups`: that of each core, with all numbers from 0 on.
    pub(crate) fn new(mut groups: Vec<usize>) -> Groups {
        if groups.is_empty() {
            groups.push(0);
        }
        let found = groups.iter().max().map_or(1, |last| last + 1);
        let count = found.min(MAX_GROUPS);
        let of_core = groups.into_iter().map(|group| GroupNo((group * count / found) as u16));
        Groups { of_core: of_core.collect(), count, current: CurrentCore::find() }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Each of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = GroupNo> + use<> {
        (0..self.count).map(|group| GroupNo(group as u16))
    }

    /// The one on which the calling thread was running a moment ago.
    #[inline(always)]
    pub(crate) fn here(&self) -> GroupNo {
        self.of(self.current.get())
    }

    #[inline(always)]
    pub(crate) fn of(&self, core: usize) -> GroupNo {
        match self.of_core.get(core) {
            Some(group) => *group,
            // A core that the system did not tell of, or the number of a thread.
            None => self.of_core[core % self.of_core.len()],
        }
    }
}

/// The numbers of a list as `0-3,8`, as far as it makes sense.
pub(crate) fn numbers(list: &str) -> impl Iterator<Item = usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u16>().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').map_while(range).flatten().map(usize::from)
}

/// The numbers of the cores that are online, rising.
fn online(cpus: &Path) -> Vec<usize> {
    let told = |name| fs::read_to_string(cpus.join(name)).ok();
    let mut cores: Vec<usize> =
        told("online").or_else(|| told("possible")).iter().flat_map(|list| numbers(list)).collect();
    cores.sort_unstable();
    cores.dedup();
    if cores.is_empty() {
        // SAFETY: it takes nothing but a number.
        let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        cores.extend(0..usize::try_from(count).unwrap_or(1).max(1));
    }
    cores
}

/// Cuts what is of one cache into parts of at most so many cores, in the order of the cores. Parts
/// are numbered as they are met.
fn parts(caches: &[usize], most: usize) -> Vec<usize> {
    let mut met = vec![0; caches.iter().max().map_or(0, |last| last + 1)];
    let mut numbers = HashMap::new();
    let number = |cache: &usize| {
        let part = (*cache, met[*cache] / most);
        met[*cache] += 1;
        let next = numbers.len();
        *numbers.entry(part).or_insert(next)
    };
    caches.iter().map(number).collect()
}

/// `groups` are those of `cores`. A core that is off, and may be switched on later, goes with the
/// one before it.
fn by_core(cores: &[usize], groups: &[usize]) -> Vec<usize> {
    let mut of_core = Vec::new();
    for (core, group) in cores.iter().zip(groups) {
        let before = of_core.last().copied().unwrap_or(*group);
        of_core.resize(*core, before);
        of_core.push(*group);
    }
    of_core
}

/// The cores that share a core's last cache, as the system writes them: cores with the same text
/// share one.
fn last_cache(caches: &Path) -> Option<String> {
    let read = |cache: &Path, name| fs::read_to_string(cache.join(name)).ok();
    let mut last: Option<(u32, String)> = None;
    for cache in fs::read_dir(caches).ok()?.flatten().map(|entry| entry.path()) {
        let level = read(&cache, "level").and_then(|level| level.trim().parse().ok());
        let for_data = read(&cache, "type").is_some_and(|kind| kind.trim() != "Instruction");
        let sharers = read(&cache, "shared_cpu_list").filter(|list| !list.trim().is_empty());
        if let (Some(level), true, Some(sharers)) = (level, for_data, sharers)
            && last.as_ref().is_none_or(|(highest, _)| level > *highest)
        {
            last = Some((level, sharers.trim().to_string()));
        }
    }
    last.map(|(_, sharers)| sharers)
}

/// How to find out the core that a thread runs on.
#[derive(Debug, Clone, Copy)]
struct CurrentCore {
    /// Where the rseq area of each thread lies, from its thread pointer on; where there is one.
    rseq: Option<isize>,
}

impl CurrentCore {
    fn find() -> CurrentCore {
        CurrentCore { rseq: rseq::offset() }
    }

    #[inline(always)]
    fn get(self) -> usize {
        self.by_rseq().unwrap_or_else(by_call)
    }

    #[inline(always)]
    fn by_rseq(self) -> Option<usize> {
        // SAFETY: glibc gave the offset.
        let core = unsafe { rseq::cpu_id(self.rseq?) };
        // Negative: the kernel does not serve this thread.
        usize::try_from(core).ok()
    }
}

/// By a system call, or by what that puts in its place; else by thread.
#[cold]
fn by_call() -> usize {
    // SAFETY: it only answers.
    let core = unsafe { libc::sched_getcpu() };
    usize::try_from(core).unwrap_or_else(|_| by_thread())
}

/// A number that is the same for a thread at all times, and seldom the same for two.
fn by_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    let address = HERE.with(|here| ptr::from_ref(here) as usize as u64);
    // Threads' memory lies at round distances: multiplied, all bits of the address count.
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod rseq {
    use std::arch::asm;
    use std::ffi::CStr;

    /// Where `cpu_id` lies in the area; behind `cpu_id_start`, which is never negative.
    const CPU_ID: isize = 4;
    /// The area must reach as far.
    const LEAST_BYTES: u32 = 8;

    /// Where the rseq area of each thread lies, from its thread pointer on.
    pub(super) fn offset() -> Option<isize> {
        let size = variable(c"__rseq_size")?.cast::<u32>();
        let offset = variable(c"__rseq_offset")?.cast::<isize>();
        // SAFETY: so glibc declares them: an unsigned int and a ptrdiff_t, set before main and
        // constant from then on. The size is 0 if areas were not registered.
        unsafe { (size.read() >= LEAST_BYTES).then(|| offset.read()) }
    }

    /// The address of a variable of the C library, if it has one of this name.
    fn variable(name: &CStr) -> Option<*const libc::c_void> {
        // SAFETY: a lookup by a name that ends with a zero.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!address.is_null()).then_some(address.cast_const())
    }

    /// The calling thread's core; negative if the kernel does not say.
    ///
    /// # Safety
    /// `offset` came from [`offset`].
    #[inline(always)]
    pub(super) unsafe fn cpu_id(offset: isize) -> i32 {
        let core: i32;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the area is part of every thread's own memory, at this distance from its thread
        // pointer, the base of fs. Four aligned bytes, which the kernel writes: hence no `pure`.
        unsafe {
            asm!(
                "mov {core:e}, dword ptr fs:[{at}]",
                at = in(reg) offset + CPU_ID,
                core = lateout(reg) core,
                options(nostack, readonly, preserves_flags)
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above; here the thread pointer is tpidr_el0.
        unsafe {
            asm!(
                "mrs {base}, tpidr_el0",
                "ldr {core:w}, [{base}, {at}]",
                at = in(reg) offset + CPU_ID,
                base = out(reg) _,
                core = out(reg) core,
                options(nostack, readonly, preserves_flags)
            );
        }
        core
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod rseq {
    pub(super) fn offset() -> Option<isize> {
        None
    }

    /// # Safety
    /// None is needed: there is no offset to call it with.
    pub(super) unsafe fn cpu_id(_offset: isize) -> i32 {
        -1
    }
}

#[cfg(test)]
mod tests;
