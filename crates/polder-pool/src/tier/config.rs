//! Which tiers of memory a pool has, and what goes where.

#![cfg(not(loom))]

use std::time::Duration;

use polder_format::PageSize;

use super::TierNo;
use crate::error::PoolError;
use crate::machine::PageMoves;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::thread::draw;

/// The most tiers that a pool may have.
pub(crate) const MOST_TIERS: usize = 4;

/// The longest simulated latency of a cache line.
const MOST_LATENCY: Duration = Duration::from_millis(100);

/// The fewest frames of a slower tier.
const MIN_FRAMES: u64 = 64;

/// A tier of memory: how much, and where.
///
/// ```
/// use polder_pool::Tier;
///
/// let far = Tier::new(1 << 30).on_node(1);
/// assert_eq!((far.bytes, far.node), (1 << 30, Some(1)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tier {
    /// Memory in bytes. That of the first tier pays for its frames and for all that the pool must
    /// know of all frames; that of a slower one pays for frames alone.
    pub bytes: u64,
    /// The node (NUMA) of which the kernel is asked for the memory of its frames: memory behind
    /// another socket, or CXL memory. `None`: wherever there is some.
    pub node: Option<u16>,
    /// How much longer than from fast memory it takes to have a cache line of this tier: simulated, for
    /// experiments where all memory is equally fast. The pool does not see which lines an operation
    /// reads, so it has each access to a page wait as long as [`Tier::SIMULATED_LINES`] lines would
    /// take.
    pub simulated_latency: Duration,
}

impl Tier {
    /// Cache lines of which an access to a page is reckoned to wait for one after the other: a lookup
    /// in a node of 4096 bytes reads its header, hints, one or two lines of slots, and the entry.
    pub const SIMULATED_LINES: u32 = 4;

    /// So many bytes, wherever there is memory.
    pub const fn new(bytes: u64) -> Tier {
        Tier { bytes, node: None, simulated_latency: Duration::ZERO }
    }

    /// On the node of this number, as the kernel counts them.
    pub const fn on_node(mut self, node: u16) -> Tier {
        self.node = Some(node);
        self
    }

    /// As if each cache line took so much longer.
    pub const fn simulated(mut self, latency: Duration) -> Tier {
        self.simulated_latency = latency;
        self
    }
}

/// With which probabilities pages go from tier to tier, each from 0 to 1 (Spitfire, SIGMOD 2021;
/// vmcache-n-2026, 2.2, where they are Dr, Dw, Rr and Rw).
///
/// ```
/// use polder_pool::Migration;
///
/// // Whatever is used comes up, and nothing that came up is read from the device again soon.
/// let eager = Migration { read_promotes: 1.0, ..Migration::default() };
/// assert_eq!(eager.evicts_to_slower, 1.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Migration {
    /// Dr: an access that finds a page in a slower tier has it promoted.
    pub read_promotes: f64,
    /// Dw: the same for a change of the page, drawn beside that for the access before it.
    pub write_promotes: f64,
    /// Rr: a page that comes from the device goes to the next slower tier. Drawn for each tier but the
    /// last.
    pub loads_to_slower: f64,
    /// Rw: a page that makes room goes to the next slower tier, and not out of memory.
    pub evicts_to_slower: f64,
}

impl Default for Migration {
    /// What is used often comes up, and what goes down stays in memory.
    fn default() -> Migration {
        Migration {
            read_promotes: 0.1,
            write_promotes: 0.1,
            loads_to_slower: 0.0,
            evicts_to_slower: 1.0,
        }
    }
}

/// The tiers of a pool ([`PoolConfig::tiers`](crate::PoolConfig)). By default there is one, which no
/// page leaves but for the device.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TierConfig {
    /// The node of the first tier's frames.
    pub first_node: Option<u16>,
    /// The tiers behind the first one, the fastest first. At most three.
    pub slower: Vec<Tier>,
    /// What goes where. `None`: the pool finds out with which probabilities an access costs least, by what
    /// an access to each tier, a load, and the move of a page take (`tier/tuner.rs`).
    pub migration: Option<Migration>,
    /// How the kernel is asked to move pages, under a translation where pages have addresses (`vm`).
    pub page_moves: PageMoves,
}

impl TierConfig {
    /// Whether there is one tier, wherever there is memory.
    pub fn is_one(&self) -> bool {
        self.slower.is_empty() && self.first_node.is_none()
    }

    /// Whether this can be, with pages of this size.
    ///
    /// # Errors
    /// [`PoolError::Tiers`], which says what cannot.
    pub fn validate(&self, size: PageSize) -> Result<(), PoolError> {
        let refuse = |what: String| Err(PoolError::Tiers { what });
        if self.is_one() {
            return Ok(());
        }
        if !cfg!(feature = "tiers") {
            return refuse("build with the feature `tiers`".to_owned());
        }
        if self.slower.len() >= MOST_TIERS {
            return refuse(format!(
                "{} tiers are more than {MOST_TIERS}; give fewer",
                self.slower.len() + 1
            ));
        }
        let least = MIN_FRAMES << size.shift();
        if let Some(at) = self.slower.iter().position(|tier| tier.bytes < least) {
            let (tier, given) = (at + 1, self.slower[at].bytes);
            return refuse(format!(
                "{given} bytes are too few for tier {tier}, counted from 0; at least {least}"
            ));
        }
        if self.slower.iter().any(|tier| tier.simulated_latency > MOST_LATENCY) {
            return refuse(format!("a simulated latency is at most {MOST_LATENCY:?}"));
        }
        if !(1..=PageMoves::MOST).contains(&self.page_moves.batch) {
            let (given, most) = (self.page_moves.batch, PageMoves::MOST);
            return refuse(format!("a batch of {given} pages; it may have 1 to {most}"));
        }
        let Migration { read_promotes, write_promotes, loads_to_slower, evicts_to_slower } =
            self.migration.unwrap_or_default();
        let probabilities = [
            ("read_promotes", read_promotes),
            ("write_promotes", write_promotes),
            ("loads_to_slower", loads_to_slower),
            ("evicts_to_slower", evicts_to_slower),
        ];
        match probabilities.iter().find(|(_, p)| !(0.0..=1.0).contains(p)) {
            Some((name, _)) => refuse(format!("`{name}` is no number from 0 to 1")),
            None => Ok(()),
        }
    }

    /// Why pages that have addresses cannot lie in these tiers; `None` if they can. The kernel moves
    /// their memory to a node that is named.
    pub fn why_not_by_address(&self) -> Option<&'static str> {
        let mut nodes = self.nodes().map(|node| node.is_some());
        let first = nodes.next();
        let differ = nodes.any(|named| Some(named) != first);
        differ.then_some("name the node of each tier, or of none")
    }

    /// Whether the pool finds out what goes where.
    pub(crate) fn is_tuned(&self) -> bool {
        !self.slower.is_empty() && self.migration.is_none()
    }

    /// All tiers' nodes, from the first tier on.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Option<u16>> {
        [self.first_node].into_iter().chain(self.slower.iter().map(|tier| tier.node))
    }
}

/// Whether something that is to happen with a probability happens this time.
#[derive(Debug, Default)]
pub(super) struct Chance(AtomicU64);

impl Chance {
    /// From 0 to 1.
    pub(super) fn set(&self, probability: f64) {
        self.0.store((probability * (1u64 << 32) as f64) as u64, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64 / (1u64 << 32) as f64
    }

    pub(super) fn draw(&self) -> bool {
        u64::from(draw()) < self.0.load(Ordering::Relaxed)
    }
}

/// The chances of a [`Migration`].
#[derive(Debug, Default)]
pub(super) struct Chances {
    pub(super) read_promotes: Chance,
    pub(super) write_promotes: Chance,
    loads_to_slower: Chance,
    pub(super) evicts_to_slower: Chance,
}

impl Chances {
    pub(super) fn of(migration: Migration) -> Chances {
        let chances = Chances::default();
        chances.set(migration);
        chances
    }

    /// Each by itself: a thread may draw with some of them as they were.
    pub(super) fn set(&self, migration: Migration) {
        self.read_promotes.set(migration.read_promotes);
        self.write_promotes.set(migration.write_promotes);
        self.loads_to_slower.set(migration.loads_to_slower);
        self.evicts_to_slower.set(migration.evicts_to_slower);
    }

    pub(super) fn get(&self) -> Migration {
        Migration {
            read_promotes: self.read_promotes.get(),
            write_promotes: self.write_promotes.get(),
            loads_to_slower: self.loads_to_slower.get(),
            evicts_to_slower: self.evicts_to_slower.get(),
        }
    }

    /// In which of so many tiers a page that comes from the device goes.
    pub(super) fn draw_for_load(&self, tiers: usize) -> TierNo {
        let slower = (1..tiers).take_while(|_| self.loads_to_slower.draw()).count();
        TierNo::new(slower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_by_its_name() {
        let ok = TierConfig { slower: vec![Tier::new(1 << 20); 3], ..TierConfig::default() };
        ok.validate(PageSize::MIN).unwrap();
        let many = TierConfig { slower: vec![Tier::new(1 << 20); 4], ..TierConfig::default() };
        assert!(many.validate(PageSize::MIN).unwrap_err().to_string().contains("5 tiers"));
        for p in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let migration = Migration { write_promotes: p, ..Migration::default() };
            let refused = TierConfig { migration: Some(migration), ..ok.clone() };
            let refused = refused.validate(PageSize::MIN);
            assert!(refused.unwrap_err().to_string().contains("`write_promotes`"), "{p}");
        }
    }

    #[test]
    fn chances_are_what_they_are_called() {
        for p in [0.0, 0.01, 0.5, 1.0] {
            let chance = Chance::default();
            chance.set(p);
            assert!((chance.get() - p).abs() < 1e-9);
            let hits = (0..100_000).filter(|_| chance.draw()).count() as f64;
            // 5 sigma are 800 at most.
            assert!((hits - p * 100_000.0).abs() <= 800.0 * (p * (1.0 - p)).sqrt() * 2.0, "{p}");
        }
        let all = Migration { loads_to_slower: 1.0, ..Migration::default() };
        assert_eq!(Chances::of(all).draw_for_load(3), TierNo::new(2));
        assert_eq!(Chances::of(Migration::default()).draw_for_load(3), TierNo::FIRST);
    }
}
