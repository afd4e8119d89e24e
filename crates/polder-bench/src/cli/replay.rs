//! `replay`: from its arguments to its table.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::ProgressBar;
use polder_pool::replacement::ReplacementKind;

use super::args::ReplayArgs;
use super::{each_once, print};
use crate::conditions::parse_theta;
use crate::error::BenchError;
use crate::replay::{CacheSize, Replay, Replayed, Source, Zipfian, table};

/// What the paper's table has beside the policies as they are by themselves.
const PAPER_SHARES: [u8; 3] = [5, 20, 50];

/// Of a made trace, and of one by Zipf's law, where nothing else is said.
const DEFAULT_REQUESTS: u32 = 20_000_000;
const DEFAULT_PAGES: u32 = 1_000_000;

pub(super) fn run(args: &ReplayArgs) -> Result<(), BenchError> {
    let replays = replays(args)?;
    for replay in &replays {
        if let Source::File(path, _) = &replay.source {
            File::open(path).map_err(BenchError::file(path))?;
        }
    }
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(200));
    let mut all = String::new();
    let mut report = |title: &str, rows: &[Replayed]| {
        let table = table(title, rows);
        all += &table;
        spinner.suspend(|| match args.output.json {
            true => rows.iter().try_for_each(|row| print(&serde_json::to_string(row)?)),
            false => print(table.trim_end()),
        })
    };
    replays.iter().try_for_each(|replay| replay.run(&spinner, &mut report))?;
    spinner.finish_and_clear();
    args.output.record(|| all)
}

/// What is said of all traces. Options that mean nothing to any of them are refused.
fn replays(args: &ReplayArgs) -> Result<Vec<Replay>, BenchError> {
    each_once("--policy", &args.policy)?;
    each_once("--frames", &args.frames)?;
    each_once("--bytes", &args.bytes)?;
    let replays: Vec<Replay> =
        args.traces.iter().map(|trace| resolve(trace, args)).collect::<Result<_, _>>()?;
    let names: Vec<String> = replays.iter().map(|replay| replay.source.name()).collect();
    each_once("the list of traces, by what results call them,", &names)?;
    let any = |is: fn(&Source) -> bool| replays.iter().any(|replay| is(&replay.source));
    let has_file = any(|source| matches!(source, Source::File(..)));
    let has_made = any(|source| !matches!(source, Source::File(..)));
    let has_zipfian = any(|source| matches!(source, Source::Zipfian(_)));
    let has_frames = !args.frames.is_empty() || args.bytes.is_empty();
    for (is_said, option, has_use, of) in [
        (args.format.is_some(), "--format", has_file, "files"),
        (args.pages.is_some(), "--pages", has_zipfian, "traces zipf:THETA"),
        (args.writes.is_some(), "--writes", has_zipfian, "traces zipf:THETA"),
        (args.requests.is_some(), "--requests", has_made, "made traces"),
        (!args.policy.is_empty(), "--policy", has_frames, "caches that count --frames"),
    ] {
        if is_said && !has_use {
            let why = format!("{option} is for {of}, and there are none here");
            return Err(BenchError::Options(why));
        }
    }
    Ok(replays)
}

/// All that is said of one trace.
fn resolve(trace: &str, args: &ReplayArgs) -> Result<Replay, BenchError> {
    let source =
        source(trace, args).map_err(|why| BenchError::Options(format!("{trace}: {why}")))?;
    let is_paper = matches!(source, Source::Paper { .. });
    let mut policies = args.policy.clone();
    if policies.is_empty() {
        policies.extend(ReplacementKind::ALL);
        let shares = PAPER_SHARES.into_iter().filter(|_| is_paper);
        policies.extend(shares.map(|percent| ReplacementKind::Cooling { percent }));
    }
    let frames = args.frames.iter().copied().map(CacheSize::Frames);
    let bytes = args.bytes.iter().copied().map(CacheSize::Bytes);
    let mut sizes: Vec<CacheSize> = frames.chain(bytes).collect();
    if sizes.is_empty() && is_paper {
        sizes.push(Source::PAPER_SIZE);
    }
    if sizes.is_empty() {
        let why = format!("how large is the cache for {trace}? Say --frames or --bytes");
        return Err(BenchError::Options(why));
    }
    Replay::new(source, policies, sizes)
}

fn source(trace: &str, args: &ReplayArgs) -> Result<Source, String> {
    let requests = args.requests.unwrap_or(DEFAULT_REQUESTS);
    Ok(match trace.strip_prefix("zipf:") {
        Some(exponent) => {
            let (theta, pages) = (parse_theta(exponent)?, args.pages.unwrap_or(DEFAULT_PAGES));
            let write_percent = args.writes.unwrap_or(0);
            Source::Zipfian(Zipfian { theta, pages, requests, write_percent })
        }
        None if trace == Source::PAPER => Source::Paper { requests },
        None if trace == Source::MIXED => Source::Mixed { requests },
        None => Source::File(PathBuf::from(trace), args.format),
    })
}

#[cfg(test)]
mod tests;
