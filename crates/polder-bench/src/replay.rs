//! Replay of traces: how often each replacement policy of the pool would have hit.
//!
//! The policies are the pool's own ([`polder_pool::replacement`]), run on simulated frames; beside
//! them stand references that know a trace rather than frames: exact LRU, FIFO, random, and the
//! optimum. From the bottom: `trace` is a sequence of requests, `formats` reads and `zipf` and
//! `mixed` make one, `frames` runs a policy on it, `exact` and `optimum` are the references,
//! `curve` has what the pool would tell of all sizes at once, `report` prints.

use std::time::Instant;

use indicatif::ProgressBar;
use polder_pool::FrameId;
use polder_pool::replacement::ReplacementKind;
use strum::VariantArray;

use crate::error::BenchError;
use crate::interrupt::Interrupt;

mod curve;
mod exact;
mod formats;
mod frames;
mod mixed;
mod optimum;
mod packed;
mod report;
mod trace;
mod zipf;

pub(crate) use formats::Format;
pub(crate) use mixed::Mixed;
pub(crate) use report::{Replayed, Table};
pub(crate) use zipf::{Paper, Zipfian};

use exact::Order;
use trace::{MOST_REQUESTS, Trace};

/// What to replay, and on which policies.
#[derive(Debug, Clone)]
pub(crate) struct Replay {
    pub(crate) source: Source,
    pub(crate) policies: Vec<ReplacementKind>,
    pub(crate) sizes: Vec<CacheSize>,
}

/// Where a trace comes from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// In this format, or in the one that its name says.
    File(std::path::PathBuf, Option<Format>),
    /// Pages drawn by Zipf's law.
    Zipfian(Zipfian),
    /// The lookups of leanstore-2018, VI-B.
    Paper(Paper),
    /// Transactions like those of TPC-C.
    Mixed(Mixed),
}

/// How much the cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheSize {
    /// Pages, all of one size.
    Frames(u32),
    /// Bytes of objects that know their size.
    Bytes(u64),
}

/// The policy, or the reference, that decides what stays.
#[derive(Debug, Clone, Copy)]
enum Player {
    Policy(ReplacementKind),
    Reference(Order),
    Optimum,
}

impl Player {
    fn name(self) -> String {
        match self {
            Player::Policy(kind) => kind.to_string(),
            Player::Reference(order) => order.to_string(),
            Player::Optimum => "optimum".to_owned(),
        }
    }
}

/// Hits and writes among the requests that count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) hits: u64,
    /// Hits of which the policy heard, as the page bore the mark. References hear of none.
    pub(crate) heard: u64,
    /// Pages that had been changed when they went: what goes to the device.
    pub(crate) writes: u64,
}

/// What the pool's sampler would tell of LRU is called so.
const SAMPLED: &str = "sampled LRU";

/// Requests between two looks at whether somebody wants to stop.
const STRETCH: usize = 1 << 16;

impl Replay {
    /// Refuses what could only fail after a part of it has run.
    pub(crate) fn new(
        source: Source,
        policies: Vec<ReplacementKind>,
        sizes: Vec<CacheSize>,
    ) -> Result<Replay, BenchError> {
        let refused = |why: &str| BenchError::Options(format!("{}: {why}", source.name()));
        let in_bytes = |size: &CacheSize| matches!(size, CacheSize::Bytes(_));
        if sizes.iter().any(in_bytes) && !source.has_sizes() {
            return Err(refused("its pages have no sizes: use --frames, not --bytes"));
        }
        if source.requests().is_some_and(|requests| requests > MOST_REQUESTS) {
            return Err(refused(&format!("a trace has at most {MOST_REQUESTS} requests")));
        }
        Ok(Replay { source, policies, sizes })
    }

    /// Runs all policies, and the references beside them, at all sizes; each row is handed to
    /// `report` as it comes.
    pub(crate) fn run(
        &self,
        interrupt: &Interrupt,
        spinner: &ProgressBar,
        report: &mut dyn FnMut(&Replayed) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        spinner.set_message(format!("{}: reading", self.source.name()));
        let trace = self.source.trace(interrupt)?;
        for &size in &self.sizes {
            for player in self.players(size) {
                let name = player.name();
                spinner.set_message(format!("{}: {name} at {}", self.source.name(), size.show()));
                let begun = Instant::now();
                let tally = play(player, &trace, size, interrupt)?;
                let ns = begun.elapsed().as_nanos() as f64 / trace.requests.len().max(1) as f64;
                let paper = self.source.paper_percent(&name, size);
                report(&Replayed::new(&self.source.name(), &name, size, tally, ns, paper))?;
            }
            if let CacheSize::Frames(frames) = size {
                spinner.set_message(format!("{}: sampled at {}", self.source.name(), size.show()));
                let begun = Instant::now();
                let Some((tally, error)) = curve::run(&trace, frames, interrupt)? else { continue };
                let ns = begun.elapsed().as_nanos() as f64 / trace.requests.len().max(1) as f64;
                let name = self.source.name();
                let row = Replayed::new(&name, SAMPLED, size, tally, ns, None);
                report(&Replayed { curve_error: Some(error), ..row })?;
            }
        }
        Ok(())
    }

    /// Policies know frames alone: a cache that is sized in bytes has the references only.
    fn players(&self, size: CacheSize) -> Vec<Player> {
        let policies = self.policies.iter().map(|&kind| Player::Policy(kind));
        let references = Order::VARIANTS.iter().copied().map(Player::Reference);
        let with_frames = matches!(size, CacheSize::Frames(_));
        let policies = policies.filter(|_| with_frames);
        policies.chain(references).chain([Player::Optimum]).collect()
    }
}

impl Source {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Source::File(..))
    }

    pub(crate) fn is_zipfian(&self) -> bool {
        matches!(self, Source::Zipfian(_))
    }

    /// Its name in tables.
    pub(crate) fn name(&self) -> String {
        match self {
            Source::File(path, _) => path
                .file_name()
                .map_or(path.display().to_string(), |name| name.to_string_lossy().into_owned()),
            Source::Zipfian(zipfian) => format!("zipf:{}", zipfian.theta),
            Source::Paper(_) => Paper::NAME.to_owned(),
            Source::Mixed(_) => Mixed::NAME.to_owned(),
        }
    }

    /// Whether its pages have sizes.
    fn has_sizes(&self) -> bool {
        matches!(self, Source::File(path, said) if Format::has_sizes(*said, path))
    }

    /// How many requests it has, where that is known before it is there.
    fn requests(&self) -> Option<u64> {
        match self {
            Source::File(..) => None,
            Source::Zipfian(zipfian) => Some(zipfian.requests),
            Source::Paper(paper) => Some(paper.requests),
            Source::Mixed(mixed) => Some(mixed.requests),
        }
    }

    fn trace(&self, interrupt: &Interrupt) -> Result<Trace, BenchError> {
        let trace = match self {
            Source::File(path, said) => formats::read(path, *said, interrupt),
            Source::Zipfian(zipfian) => zipfian.trace(interrupt),
            Source::Paper(paper) => paper.trace(interrupt),
            Source::Mixed(mixed) => mixed.trace(interrupt),
        };
        trace.map_err(|error| match error {
            BenchError::Options(why) => BenchError::Options(format!("{}: {why}", self.name())),
            other => other,
        })
    }

    fn paper_percent(&self, name: &str, size: CacheSize) -> Option<f64> {
        match (self, size) {
            (Source::Paper(_), CacheSize::Frames(Paper::FRAMES)) => Paper::percent(name),
            _ => None,
        }
    }
}

impl CacheSize {
    /// The number of frames, if the pool can have as many.
    pub(crate) fn frames(count: u64) -> Result<CacheSize, BenchError> {
        match u32::try_from(count) {
            Ok(frames @ 1..) if frames <= FrameId::MAX.get() => Ok(CacheSize::Frames(frames)),
            _ => {
                let most = FrameId::MAX.get();
                Err(BenchError::Options(format!("a pool has from 1 to {most} frames, not {count}")))
            }
        }
    }

    fn show(self) -> String {
        match self {
            CacheSize::Frames(frames) => format!("{frames} frames"),
            CacheSize::Bytes(bytes) => crate::size::show_bytes(bytes),
        }
    }
}

/// One player through the whole trace.
fn play(
    player: Player,
    trace: &Trace,
    size: CacheSize,
    interrupt: &Interrupt,
) -> Result<Tally, BenchError> {
    let room = trace.room(size);
    match (player, size) {
        (Player::Policy(kind), CacheSize::Frames(count)) => {
            frames::run(kind, trace, count, interrupt)
        }
        (Player::Policy(kind), CacheSize::Bytes(_)) => {
            Err(BenchError::Options(format!("{kind} knows frames, not bytes")))
        }
        (Player::Reference(order), _) => exact::run(order, trace, &room, interrupt),
        (Player::Optimum, _) => optimum::run(trace, &room, interrupt),
    }
}

#[cfg(test)]
mod tests;
