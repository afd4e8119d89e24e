//! What becomes of pages beside which others cannot be moved: how many each call moves, and whether
//! what it says of each page is true.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::calls::{self, Address, Held, Mode, PAGE_BYTES, Pages};
use crate::speed::flushes;

/// Pages of a call.
const PAGES: usize = 4096;
/// One page in so many cannot be moved, or not as it is asked.
const ONE_IN: usize = 64;
/// The size of batch of `move_pages`, so that both calls are told the same.
const MOST_BATCHED: i32 = 512;
/// No machine has a node of this number.
const NO_NODE: i32 = 1023;
/// Pages that are taken at a time to fill a node, how many times as many are given back, and when it is
/// given up.
const FILLED_AT_ONCE: usize = 256;
const GIVEN_BACK: usize = 4;
const MOST_FILLED_BYTES: usize = 1 << 30;
/// No call tells this of a page.
const UNTOLD: i32 = i32::MIN;

/// What keeps pages from being moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// One address in 64 is not mapped.
    Unmapped,
    /// One page is to go to a node that there is not.
    NoNode,
    /// The kernel holds one page in 64, for a device or a pipe.
    Held,
    /// One page in 64 is named twice.
    Twice,
    /// The other node has room for a part of the pages.
    NoRoom,
}

impl Cause {
    pub const ALL: [Cause; 5] =
        [Cause::Unmapped, Cause::NoNode, Cause::Held, Cause::Twice, Cause::NoRoom];

    pub fn name(self) -> &'static str {
        match self {
            Cause::Unmapped => "64 not mapped",
            Cause::NoNode => "1 to no node",
            Cause::Held => "64 held",
            Cause::Twice => "64 named twice",
            Cause::NoRoom => "no room for all",
        }
    }

    fn concerns(page: usize) -> bool {
        page % ONE_IN == ONE_IN - 1
    }
}

/// The call that moves them; `None` is `move_pages`.
pub type Call = Option<Mode>;

/// What a call did.
#[derive(Debug)]
pub struct Outcome {
    /// What it returned: the number of pages that it did not move, or an error.
    pub returned: Result<usize, i32>,
    /// Pages that are on the other node now.
    pub moved: usize,
    /// Pages of which it told what is true: where they are, or an error if they are not where they
    /// should be.
    pub told: usize,
    /// How often the TLBs of other cores were flushed meanwhile; where the kernel counts it.
    pub flushes: Option<u64>,
}

impl Outcome {
    pub fn is_true_of_all(&self) -> bool {
        self.told == PAGES
    }
}

/// Takes the memory of a node, until pages that ask for it are given another's, and gives a little of it
/// back. Nothing, if it has more than is worth filling.
fn fill(node: i32) -> io::Result<Option<Vec<Pages>>> {
    let mut filled = Vec::new();
    while filled.len() * FILLED_AT_ONCE * PAGE_BYTES < MOST_FILLED_BYTES {
        let pages = Pages::preferring(FILLED_AT_ONCE, node)?;
        let is_full = calls::nodes_of(&pages.addresses())?.iter().any(|place| *place != node);
        filled.push(pages);
        if is_full {
            filled.drain(..GIVEN_BACK.min(filled.len()));
            return Ok(Some(filled));
        }
    }
    Ok(None)
}

/// Counts how often TLBs are flushed during a call, while another thread of ours keeps a core busy: a
/// core that runs nothing of ours has nothing to flush.
fn counted<T>(core: usize, call: impl FnOnce() -> T) -> (T, Option<u64>) {
    let (runs, stops) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            calls::stay_on(core);
            while !stops.load(Ordering::Relaxed) {
                runs.store(true, Ordering::Relaxed);
            }
        });
        while !runs.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let before = flushes();
        let done = call();
        let counted = flushes().zip(before).map(|(after, before)| after - before);
        stops.store(true, Ordering::Relaxed);
        (done, counted)
    })
}

/// Has a call move pages to the other node, of which some cannot be moved. Nothing, if the cause cannot
/// be had on this machine. The thread stays on the first core.
pub fn outcome(
    cause: Cause,
    call: Call,
    nodes: [i32; 2],
    cores: &[usize],
) -> io::Result<Option<Outcome>> {
    calls::stay_on(cores[0]);
    let pages = Pages::on_node(PAGES, nodes[0])?;
    let mut addresses = pages.addresses();
    let mut targets = vec![nodes[1]; PAGES];
    let concerned: Vec<usize> = (0..PAGES).filter(|page| Cause::concerns(*page)).collect();
    // What is in the way lies there until the call has returned.
    let (mut _held, mut _full) = (None, None);
    match cause {
        Cause::Unmapped => {
            for page in concerned {
                // SAFETY: the page's address is given to the kernel alone.
                unsafe { pages.give_back(page) };
            }
        }
        Cause::NoNode => targets[PAGES / 2] = NO_NODE,
        Cause::Held => {
            let held: Vec<Address> = concerned.into_iter().map(|page| addresses[page]).collect();
            _held = Some(Held::new(&held)?);
        }
        Cause::Twice => {
            concerned.into_iter().for_each(|page| addresses[page] = addresses[page - 1])
        }
        Cause::NoRoom => match fill(nodes[1])? {
            None => return Ok(None),
            full => _full = full,
        },
    }
    let mut status = vec![UNTOLD; PAGES];
    let (returned, flushes) = counted(cores[1 % cores.len()], || match call {
        None => calls::move_pages(&addresses, &targets, &mut status),
        Some(mode) => calls::move_pages2(&addresses, &targets, &mut status, mode, MOST_BATCHED),
    });
    let places = calls::nodes_of(&addresses)?;
    let moved = places.iter().filter(|place| **place == nodes[1]).count();
    let is_true = |page: &usize| {
        let (status, place) = (status[*page], places[*page]);
        status == place || (status != UNTOLD && status < 0 && place != targets[*page])
    };
    let told = (0..PAGES).filter(is_true).count();
    let returned = returned.map_err(|error| error.raw_os_error().unwrap_or(0));
    Ok(Some(Outcome { returned, moved, told, flushes }))
}
