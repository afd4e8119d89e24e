//! Replay of traces: how often each replacement policy of the pool would have hit.
//!
//! The policies are the pool's own ([`polder_pool::replacement`]), run on simulated frames; beside
//! them stand references that know a trace rather than frames: exact LRU, FIFO, random, and the
//! optimum. From the bottom: `trace` is a sequence of requests, `formats` reads and `zipf` and
//! `mixed` make one, `frames` runs a policy on it, `references` has the others, `curve` what the
//! pool would tell of all sizes at once.

use std::path::PathBuf;
use std::time::Instant;

use indicatif::ProgressBar;
use polder_pool::replacement::ReplacementKind;
use serde::Serialize;

use crate::error::BenchError;
use crate::size::show_bytes;

mod curve;
mod formats;
mod frames;
mod mixed;
mod references;
mod trace;
mod zipf;

pub(crate) use formats::Format;
pub(crate) use trace::MOST_REQUESTS;
pub(crate) use zipf::Zipfian;

use trace::{Tally, Trace};

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
    File(PathBuf, Option<Format>),
    /// Pages drawn by Zipf's law.
    Zipfian(Zipfian),
    /// The lookups of leanstore-2018, VI-B.
    Paper { requests: u32 },
    /// Transactions like those of TPC-C.
    Mixed { requests: u32 },
}

/// How much the cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CacheSize {
    /// Pages, all of one size.
    Frames(u32),
    /// Bytes of objects that know their size.
    Bytes(u64),
}

/// The policy, or the reference, that decides what stays.
#[derive(Debug, Clone, Copy, PartialEq, strum::Display)]
#[strum(serialize_all = "lowercase")]
enum Player {
    #[strum(to_string = "{0}")]
    Policy(ReplacementKind),
    #[strum(to_string = "exact LRU")]
    Lru,
    #[strum(to_string = "FIFO")]
    Fifo,
    Random,
    Optimum,
    /// LRU, as the pool's sampler would tell of it.
    #[strum(to_string = "sampled LRU")]
    Sampled,
}

/// One policy at one size on one trace; the JSON line.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Replayed {
    pub(crate) trace: String,
    pub(crate) policy: String,
    /// `frames` or `bytes`.
    #[serde(flatten)]
    pub(crate) size: CacheSize,
    #[serde(flatten)]
    pub(crate) tally: Tally,
    pub(crate) hit_percent: f64,
    pub(crate) misses: u64,
    /// Of the whole replay, the simulation's own share included.
    pub(crate) ns_per_request: f64,
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
        let name = self.source.name();
        spinner.set_message(format!("{name}: reading"));
        let trace = self.source.trace()?;
        for &size in &self.sizes {
            let title = match size {
                CacheSize::Frames(frames) => format!("{name}, {frames} frames"),
                CacheSize::Bytes(bytes) => format!("{name}, {}", show_bytes(bytes)),
            };
            let mut rows = Vec::new();
            for player in self.players(size) {
                spinner.set_message(format!("{title}: {player}"));
                let begun = Instant::now();
                let tally = play(player, &trace, size)?;
                let ns = begun.elapsed().as_nanos() as f64;
                rows.push(Replayed {
                    trace: name.clone(),
                    policy: player.to_string(),
                    size,
                    hit_percent: 100.0 * tally.hits as f64 / tally.requests.max(1) as f64,
                    misses: tally.requests - tally.hits,
                    ns_per_request: ns / trace.requests.len().max(1) as f64,
                    tally,
                });
            }
            report(&title, &rows)?;
        }
        Ok(())
    }

    /// Policies know frames alone: a cache that is sized in bytes has the references only.
    fn players(&self, size: CacheSize) -> Vec<Player> {
        let references = [Player::Lru, Player::Fifo, Player::Random, Player::Optimum];
        let CacheSize::Frames(frames) = size else { return references.to_vec() };
        let policies = self.policies.iter().copied().map(Player::Policy);
        let sampled = curve::has_sample(frames).then_some(Player::Sampled);
        policies.chain(references).chain(sampled).collect()
    }
}

impl Source {
    /// What the two that are made and need nothing else are called in the place of a file.
    pub(crate) const PAPER: &str = "leanstore-vi-b";
    pub(crate) const MIXED: &str = "tpcc-like";
    /// The pool of 1 GiB of the paper.
    pub(crate) const PAPER_SIZE: CacheSize = CacheSize::Frames(65_536);

    /// Its name in tables.
    pub(crate) fn name(&self) -> String {
        match self {
            Source::File(path, _) => {
                path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }
            Source::Zipfian(zipfian) => format!("zipf:{}", zipfian.theta),
            Source::Paper { .. } => Source::PAPER.to_owned(),
            Source::Mixed { .. } => Source::MIXED.to_owned(),
        }
    }

    /// Whether its pages have sizes.
    fn has_sizes(&self) -> bool {
        matches!(self, Source::File(path, said)
            if said.or_else(|| Format::of(path)) == Some(Format::Oracle))
    }

    fn trace(&self) -> Result<Trace, BenchError> {
        Ok(match self {
            Source::File(path, said) => formats::read(path, *said)?,
            Source::Zipfian(zipfian) => zipfian.trace(),
            Source::Paper { requests } => zipf::paper(*requests),
            Source::Mixed { requests } => mixed::mixed(*requests),
        })
    }
}

/// One player through the whole trace.
fn play(player: Player, trace: &Trace, size: CacheSize) -> Result<Tally, BenchError> {
    match (player, size) {
        (Player::Policy(kind), CacheSize::Frames(frames)) => frames::run(kind, trace, frames),
        (Player::Sampled, CacheSize::Frames(frames)) => curve::run(trace, frames),
        _ => references::run(player, trace, size),
    }
}

/// The rows of one trace at one size, for people. `title` says which.
pub(crate) fn table(title: &str, rows: &[Replayed]) -> String {
    let titles = ["policy", "hits", "hit ratio", "misses", "writes", "heard", "ns/request"];
    let cells = rows.iter().map(|row| {
        let heard = 100.0 * row.tally.heard as f64 / row.tally.requests.max(1) as f64;
        vec![
            row.policy.clone(),
            row.tally.hits.to_string(),
            format!("{:.3}%", row.hit_percent),
            row.misses.to_string(),
            row.tally.writes.to_string(),
            format!("{heard:.3}%"),
            format!("{:.1}", row.ns_per_request),
        ]
    });
    let requests = rows.first().map_or(0, |row| row.tally.requests);
    let mut text = format!("{title}, {requests} requests\n{}", crate::table::table(&titles, cells));
    for (row, error) in rows.iter().filter_map(|row| Some((row, row.tally.curve_error?))) {
        text += &format!("The curve of {} is {:.3}% off on average.\n", row.policy, 100.0 * error);
    }
    text
}

#[cfg(test)]
mod tests;
