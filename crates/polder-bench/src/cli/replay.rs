//! `replay`: from its arguments to its table.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::ProgressBar;
use polder_pool::replacement::ReplacementKind;

use super::args::{ReplayArgs, theta};
use super::{each_once, print, record, to_json};
use crate::error::BenchError;
use crate::replay::{
    CacheSize, MOST_REQUESTS, Mixed, Paper, Replay, Replayed, Source, Zipfian, table,
};

/// What the paper's table has beside the policies as they are by themselves.
const PAPER_SHARES: [u8; 3] = [5, 20, 50];

/// Of a made trace, and of one by Zipf's law, where nothing else is said.
const DEFAULT_REQUESTS: u64 = 20_000_000;
const DEFAULT_PAGES: u64 = 1_000_000;

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
        spinner.suspend(|| match args.json {
            true => rows.iter().try_for_each(|row| print(&to_json(row)?)),
            false => print(table.trim_end()),
        })
    };
    replays.iter().try_for_each(|replay| replay.run(&spinner, &mut report))?;
    spinner.finish_and_clear();
    record(args.record.as_ref(), || all)
}

/// What is said of all traces. Options that mean nothing to any of them are refused.
fn replays(args: &ReplayArgs) -> Result<Vec<Replay>, BenchError> {
    each_once("--policy", &args.policy)?;
    each_once("--frames", &args.frames)?;
    each_once("--bytes", &args.bytes)?;
    let replays: Vec<Replay> =
        args.traces.iter().map(|trace| resolve(trace, args)).collect::<Result<_, _>>()?;
    for (i, replay) in replays.iter().enumerate() {
        let name = replay.source.name();
        if replays[..i].iter().any(|other| other.source.name() == name) {
            let why = format!("results would call two traces the same: {name}");
            return Err(BenchError::Options(why));
        }
    }
    let any = |is: fn(&Source) -> bool| replays.iter().any(|replay| is(&replay.source));
    let no_policy = args.frames.is_empty() && !args.bytes.is_empty();
    for (said, option, has_use, of) in [
        (args.format.is_some(), "--format", any(Source::is_file), "files"),
        (args.pages.is_some(), "--pages", any(Source::is_zipfian), "traces zipf:THETA"),
        (args.writes.is_some(), "--writes", any(Source::is_zipfian), "traces zipf:THETA"),
        (args.requests.is_some(), "--requests", any(|source| !source.is_file()), "made traces"),
        (!args.policy.is_empty(), "--policy", !no_policy, "caches that count --frames"),
    ] {
        if said && !has_use {
            let why = format!("{option} is for {of}, and there are none here");
            return Err(BenchError::Options(why));
        }
    }
    Ok(replays)
}

/// All that is said of one trace.
fn resolve(trace: &str, args: &ReplayArgs) -> Result<Replay, BenchError> {
    let source = source(trace, args)?;
    let is_paper = matches!(source, Source::Paper(_));
    let mut policies = args.policy.clone();
    if policies.is_empty() {
        policies.extend(ReplacementKind::ALL);
        let shares = PAPER_SHARES.into_iter().filter(|_| is_paper);
        policies.extend(shares.map(|percent| ReplacementKind::Cooling { percent }));
    }
    let frames = args.frames.iter().map(|&count| CacheSize::frames(count));
    let mut sizes: Vec<CacheSize> = frames.collect::<Result<_, _>>()?;
    sizes.extend(args.bytes.iter().map(|&bytes| CacheSize::Bytes(bytes)));
    if sizes.is_empty() && is_paper {
        sizes.push(CacheSize::Frames(Paper::FRAMES));
    }
    if sizes.is_empty() {
        let why = format!("how large is the cache for {trace}? Say --frames or --bytes");
        return Err(BenchError::Options(why));
    }
    Replay::new(source, policies, sizes)
}

fn source(trace: &str, args: &ReplayArgs) -> Result<Source, BenchError> {
    let refused = |why: String| BenchError::Options(format!("{trace}: {why}"));
    let requests = args.requests.unwrap_or(DEFAULT_REQUESTS);
    if requests > MOST_REQUESTS {
        return Err(refused(format!("a trace has at most {MOST_REQUESTS} requests")));
    }
    if trace == Paper::NAME {
        return Ok(Source::Paper(Paper { requests }));
    }
    if trace == Mixed::NAME {
        return Ok(Source::Mixed(Mixed { requests }));
    }
    let Some(exponent) = trace.strip_prefix("zipf:") else {
        return Ok(Source::File(PathBuf::from(trace), args.format));
    };
    let theta = theta(exponent).map_err(refused)?;
    let pages = args.pages.unwrap_or(DEFAULT_PAGES);
    let pages = u32::try_from(pages).map_err(|_| refused(format!("{pages} pages are too many")))?;
    let write_percent = args.writes.unwrap_or(0);
    Ok(Source::Zipfian(Zipfian { theta, pages, requests, write_percent }))
}

#[cfg(test)]
mod tests;
