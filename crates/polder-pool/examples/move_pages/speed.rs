//! How many pages a second each way of moving moves, to the other node and back, and what those who
//! read them meanwhile have of it.

use std::fmt;
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::calls::{self, Address, Mode, Pages};

/// Pages of a range, which are moved there and back.
pub const PAGES: usize = 4096;
const READERS: usize = 2;
/// Ways that move one page at a time look at the clock each time they have moved so many: where time is
/// emulated, that takes longer than the copy of a page.
const SINGLE_PAGES: usize = 64;
/// A reader says how far it is each time it has read so many.
const READS_AT_ONCE: u64 = 64;

/// A way to move pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Nothing is moved, by a thread that is as busy.
    Nothing,
    /// `mbind`, a page at a time.
    Bind,
    /// `move_pages`, so many pages with one call.
    Move { pages: usize },
    /// `move_pages2`, all pages with one call.
    Move2 { mode: Mode, most_batched: i32 },
    /// A copy in another range: the program must then know where each page is.
    Copy,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Nothing => write!(f, "nothing moves"),
            Way::Bind => write!(f, "mbind 1"),
            Way::Move { pages } => write!(f, "move_pages {pages}"),
            Way::Move2 { mode, most_batched } => {
                write!(f, "move_pages2 {} {most_batched}", mode.name())
            }
            Way::Copy => write!(f, "copy in user space"),
        }
    }
}

/// All ways that there are with this kernel.
pub fn ways(has_move_pages2: bool) -> Vec<Way> {
    let mut ways = vec![Way::Nothing, Way::Bind];
    ways.extend([1, 8, 64, 512, 4096].map(|pages| Way::Move { pages }));
    for mode in Mode::ALL.into_iter().filter(|_| has_move_pages2) {
        ways.extend([1, 64, 512, 4096].map(|most_batched| Way::Move2 { mode, most_batched }));
    }
    ways.push(Way::Copy);
    ways
}

/// What one turn of a way came to.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    pub pages_per_second: f64,
    pub reads_per_second: f64,
    /// How often the TLBs of other cores were flushed, for each page; where the kernel counts it.
    pub flushes_per_page: Option<f64>,
}

/// Pages, and what the calls are told of them.
struct Range {
    pages: Pages,
    addresses: Vec<Address>,
    /// On the other node, for a way that copies.
    copies: Option<Pages>,
    /// The nodes, and for each page one of them.
    nodes: [i32; 2],
    targets: [Vec<i32>; 2],
}

impl Range {
    /// Pages on the first of the nodes.
    fn new(way: Way, nodes: [i32; 2]) -> io::Result<Range> {
        let pages = Pages::on_node(PAGES, nodes[0])?;
        let copies = match way {
            Way::Copy => Some(Pages::on_node(PAGES, nodes[1])?),
            _ => None,
        };
        let (addresses, targets) = (pages.addresses(), nodes.map(|node| vec![node; PAGES]));
        Ok(Range { pages, addresses, copies, nodes, targets })
    }

    /// Moves pages from `first` on to a node, as many as the way moves at once, or some. Says how many it
    /// tried and how many are there.
    fn move_some(&self, way: Way, first: usize, to: usize) -> io::Result<[usize; 2]> {
        let (left, target) = (PAGES - first, self.nodes[to]);
        let mut status = [0; PAGES];
        let tried = match way {
            Way::Nothing => return Ok([left, 0]),
            Way::Bind => {
                let tried = SINGLE_PAGES.min(left);
                for page in first..first + tried {
                    self.pages.bind_page(page, target)?;
                }
                return Ok([tried, tried]);
            }
            Way::Copy => {
                let tried = SINGLE_PAGES.min(left);
                if let Some(copies) = &self.copies {
                    let ranges = [&self.pages, copies];
                    let copy = |page| ranges[1 - to].copy_to(ranges[to], page);
                    (first..first + tried).for_each(copy);
                }
                return Ok([tried, tried]);
            }
            Way::Move { pages } => {
                let tried = pages.min(left);
                let (of, status) = (first..first + tried, &mut status[..tried]);
                calls::move_pages(&self.addresses[of.clone()], &self.targets[to][of], status)?;
                tried
            }
            Way::Move2 { mode, most_batched } => {
                let (addresses, targets) = (&self.addresses[first..], &self.targets[to][first..]);
                calls::move_pages2(addresses, targets, &mut status[..left], mode, most_batched)?;
                left
            }
        };
        Ok([tried, status[..tried].iter().filter(|status| **status == target).count()])
    }
}

/// Reads random pages until it is told to stop, and counts.
fn read(pages: &Pages, seed: u64, count: &AtomicU64, stops: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(seed);
    while !stops.load(Ordering::Relaxed) {
        for _ in 0..READS_AT_ONCE {
            black_box(pages.read(random.usize(..PAGES)));
        }
        count.fetch_add(READS_AT_ONCE, Ordering::Relaxed);
    }
}

/// How often the kernel has asked other cores to flush their TLBs, if it counts that.
pub fn flushes() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/vmstat").ok()?;
    let count = counts.lines().find_map(|line| line.strip_prefix("nr_tlb_remote_flush "))?;
    count.parse().ok()
}

/// A turn of a way: `lasting` long, by a thread on the first core, with readers on the next ones.
pub fn turn(way: Way, nodes: [i32; 2], cores: &[usize], lasting: Duration) -> io::Result<Turn> {
    calls::stay_on(cores[0]);
    let range = Range::new(way, nodes)?;
    let (stops, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; READERS]);
    let turn = thread::scope(|scope| {
        for (reader, count) in counts.iter().enumerate() {
            let (core, stops, pages) = (cores[(reader + 1) % cores.len()], &stops, &range.pages);
            scope.spawn(move || {
                calls::stay_on(core);
                read(pages, reader as u64, count, stops);
            });
        }
        // A turn begins when all read.
        while counts.iter().any(|count| count.load(Ordering::Relaxed) == 0) {
            thread::yield_now();
        }
        let turn = measured(&range, way, &counts, lasting);
        stops.store(true, Ordering::Relaxed);
        turn
    })?;
    Ok(turn)
}

/// Moves all pages to the other node and back, again and again.
fn measured(
    range: &Range,
    way: Way,
    counts: &[AtomicU64; READERS],
    lasting: Duration,
) -> io::Result<Turn> {
    let reads = || counts.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>();
    let (flushes_before, reads_before, begin) = (flushes(), reads(), Instant::now());
    let (mut moved, mut first, mut to) = (0, 0, 1);
    while begin.elapsed() < lasting {
        let [tried, there] = range.move_some(way, first, to)?;
        moved += there;
        first += tried;
        if first == PAGES {
            (first, to) = (0, 1 - to);
        }
    }
    let (seconds, reads) = (begin.elapsed().as_secs_f64(), reads() - reads_before);
    let flushed = flushes().zip(flushes_before).map(|(after, before)| after - before);
    Ok(Turn {
        pages_per_second: moved as f64 / seconds,
        reads_per_second: reads as f64 / seconds,
        flushes_per_page: flushed.filter(|_| moved > 0).map(|n| n as f64 / moved as f64),
    })
}
