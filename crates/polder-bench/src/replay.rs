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
pub(crate) use report::{Replayed, table};
pub(crate) use trace::MOST_REQUESTS;
pub(crate) use zipf::{Paper, Zipfian};

use exact::Order;
use trace::Trace;

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
    /// LRU, as the pool's sampler would tell of it.
    Sampled,
}

impl Player {
    fn name(self) -> String {
        match self {
            Player::Policy(kind) => kind.to_string(),
            Player::Reference(order) => order.to_string(),
            Player::Optimum => "optimum".to_owned(),
            Player::Sampled => "sampled LRU".to_owned(),
        }
    }
}

/// Hits and writes among the requests that count.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    requests: u64,
    hits: u64,
    /// Hits of which the policy heard, as the page bore the mark. References hear of none.
    heard: u64,
    /// Pages that had been changed when they went: what goes to the device.
    writes: u64,
    /// The mean error of a sampled curve.
    curve_error: Option<f64>,
}

impl Replay {
    /// Refuses what could only fail after a part of it has run.
    pub(crate) fn new(
        source: Source,
        policies: Vec<ReplacementKind>,
        sizes: Vec<CacheSize>,
    ) -> Result<Replay, BenchError> {
        let in_bytes = |size: &CacheSize| matches!(size, CacheSize::Bytes(_));
        if sizes.iter().any(in_bytes) && !source.has_sizes() {
            let why = "its pages have no sizes: use --frames, not --bytes";
            return Err(BenchError::Options(format!("{}: {why}", source.name())));
        }
        Ok(Replay { source, policies, sizes })
    }

    /// Runs all policies, and the references beside them, at all sizes; the rows of a size are handed
    /// to `report`, with the name of the trace and the size, when all of them are there.
    pub(crate) fn run(
        &self,
        spinner: &ProgressBar,
        mut report: impl FnMut(&str, &[Replayed]) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        spinner.set_message(format!("{}: reading", self.source.name()));
        let trace = self.source.trace()?;
        for &size in &self.sizes {
            let title = format!("{}, {}", self.source.name(), size.show());
            let (frames, bytes) = match size {
                CacheSize::Frames(frames) => (Some(frames), None),
                CacheSize::Bytes(bytes) => (None, Some(bytes)),
            };
            let mut rows = Vec::new();
            for player in self.players(size) {
                let policy = player.name();
                spinner.set_message(format!("{title}: {policy}"));
                let begun = Instant::now();
                let tally = play(player, &trace, size)?;
                let ns = begun.elapsed().as_nanos() as f64;
                rows.push(Replayed {
                    trace: self.source.name(),
                    paper_percent: self.source.paper_percent(&policy, size),
                    policy,
                    frames,
                    bytes,
                    requests: tally.requests,
                    hits: tally.hits,
                    hit_percent: 100.0 * tally.hits as f64 / tally.requests.max(1) as f64,
                    misses: tally.requests - tally.hits,
                    writes: tally.writes,
                    heard: tally.heard,
                    ns_per_request: ns / trace.requests.len().max(1) as f64,
                    curve_error: tally.curve_error,
                });
            }
            report(&title, &rows)?;
        }
        Ok(())
    }

    /// Policies know frames alone: a cache that is sized in bytes has the references only.
    fn players(&self, size: CacheSize) -> Vec<Player> {
        let policies = self.policies.iter().map(|&kind| Player::Policy(kind));
        let references = Order::VARIANTS.iter().copied().map(Player::Reference);
        let references = references.chain([Player::Optimum]);
        match size {
            CacheSize::Bytes(_) => references.collect(),
            CacheSize::Frames(frames) => {
                let sampled = curve::has_sample(frames).then_some(Player::Sampled);
                policies.chain(references).chain(sampled).collect()
            }
        }
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

    fn trace(&self) -> Result<Trace, BenchError> {
        Ok(match self {
            Source::File(path, said) => formats::read(path, *said)?,
            Source::Zipfian(zipfian) => zipfian.trace(),
            Source::Paper(paper) => paper.trace(),
            Source::Mixed(mixed) => mixed.trace(),
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
fn play(player: Player, trace: &Trace, size: CacheSize) -> Result<Tally, BenchError> {
    let room = trace.room(size);
    match (player, size) {
        (Player::Policy(kind), CacheSize::Frames(frames)) => frames::run(kind, trace, frames),
        (Player::Sampled, CacheSize::Frames(frames)) => curve::run(trace, frames),
        (Player::Reference(order), _) => exact::run(order, trace, &room),
        (Player::Optimum, _) => optimum::run(trace, &room),
        (Player::Policy(_) | Player::Sampled, CacheSize::Bytes(_)) => {
            Err(BenchError::Options(format!("{} knows frames, not bytes", player.name())))
        }
    }
}

#[cfg(test)]
mod tests;
