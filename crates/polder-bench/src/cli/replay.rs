//! `replay`: from its arguments to its table.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::ProgressBar;
use polder_pool::replacement::ReplacementKind;

use super::args::{ReplayArgs, theta};
use super::{each_once, listen, print, record, to_json};
use crate::error::BenchError;
use crate::replay::{CacheSize, Mixed, Paper, Replay, Replayed, Source, Table, Zipfian};

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
    let interrupt = listen()?;
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(200));
    let (mut table, mut all) = (Table::default(), String::new());
    let mut report = |row: &Replayed| {
        let line = table.row(row);
        all += &format!("{line}\n");
        let line = if args.json { to_json(row)? } else { line };
        spinner.suspend(|| print(&line))
    };
    replays.iter().try_for_each(|replay| replay.run(&interrupt, &spinner, &mut report))?;
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
    let requests = args.requests.unwrap_or(DEFAULT_REQUESTS);
    if trace == Paper::NAME {
        return Ok(Source::Paper(Paper { requests }));
    }
    if trace == Mixed::NAME {
        return Ok(Source::Mixed(Mixed { requests }));
    }
    let Some(exponent) = trace.strip_prefix("zipf:") else {
        return Ok(Source::File(PathBuf::from(trace), args.format));
    };
    let refused = |why: String| BenchError::Options(format!("{trace}: {why}"));
    let theta = theta(exponent).map_err(refused)?;
    let pages = args.pages.unwrap_or(DEFAULT_PAGES);
    let pages = u32::try_from(pages).map_err(|_| refused(format!("{pages} pages are too many")))?;
    let write_percent = args.writes.unwrap_or(0);
    Ok(Source::Zipfian(Zipfian { theta, pages, requests, write_percent }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command};
    use clap::Parser;

    fn parsed(line: &str) -> Result<Vec<Replay>, BenchError> {
        let Ok(Cli { command: Command::Replay(args) }) =
            Cli::try_parse_from(line.split_whitespace())
        else {
            panic!("{line} is not parsed")
        };
        replays(&args)
    }

    #[test]
    fn traces_policies_and_sizes_are_resolved() {
        let line = "x replay a.lis zipf:0.8 --policy clock,cooling:5 --frames 10,1k \
                    --pages 500 --requests 7k --writes 30";
        let found = parsed(&line.replace('\\', "")).unwrap();
        let [file, zipf] = &found[..] else { panic!("{found:?}") };
        assert_eq!(file.source.name(), "a.lis");
        let cooling = ReplacementKind::Cooling { percent: 5 };
        assert_eq!(file.policies, [ReplacementKind::Clock, cooling]);
        let sizes = [CacheSize::Frames(10), CacheSize::Frames(1000)];
        assert_eq!(file.sizes, sizes);
        let Source::Zipfian(zipfian) = &zipf.source else { panic!("{zipf:?}") };
        assert_eq!((zipfian.theta, zipfian.pages, zipfian.requests), (0.8, 500, 7000));
        assert_eq!(zipfian.write_percent, 30);
        let found = parsed("x replay tpcc-like --frames 10 --requests 7k").unwrap();
        assert_eq!(found[0].source.name(), "tpcc-like");
    }

    #[test]
    fn the_papers_table_needs_no_sizes() {
        let found = parsed("x replay leanstore-vi-b").unwrap();
        assert_eq!(found[0].sizes, [CacheSize::Frames(65_536)]);
        assert_eq!(found[0].policies.len(), ReplacementKind::ALL.len() + 3);
        let found = parsed("x replay a.lis --frames 1").unwrap();
        assert_eq!(found[0].policies, ReplacementKind::ALL);
    }

    #[test]
    fn senseless_arguments_are_refused() {
        for line in [
            "x replay a.lis",
            "x replay zipf:x --frames 10",
            "x replay zipf:0 --frames 10",
            "x replay zipf:1 --frames 10 --pages 5G",
            "x replay a.lis --frames 1G",
            "x replay a.lis zipf:1 --bytes 1MiB",
            "x replay a.lis --frames 1,1",
            "x replay a.bin --bytes 1MiB,1024KiB",
            "x replay a.lis --frames 1 --policy cooling,lru,cooling:10",
            "x replay zipf:1 --frames 10 --requests 5G",
            "x replay a/t.lis b/t.lis --frames 10",
            "x replay t.lis t.lis --frames 10",
            "x replay zipf:1 zipf:1.0 --frames 10",
        ] {
            assert!(matches!(parsed(line), Err(BenchError::Options(_))), "{line}");
        }
        for line in [
            "x replay",
            "x replay a --frames 0",
            "x replay a.bin --bytes 0",
            "x replay a --policy arc --frames 1",
            "x replay zipf:1 --frames 1 --writes 101",
        ] {
            assert!(Cli::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }

    #[test]
    fn options_that_mean_nothing_are_refused() {
        for (line, option) in [
            ("x replay a.lis --frames 1 --pages 10", "--pages"),
            ("x replay leanstore-vi-b --pages 10", "--pages"),
            ("x replay tpcc-like --frames 1 --writes 10", "--writes"),
            ("x replay a.lis --frames 1 --requests 10", "--requests"),
            ("x replay zipf:1 leanstore-vi-b --frames 1 --format lis", "--format"),
            ("x replay a.bin --bytes 1MiB --policy lru", "--policy"),
        ] {
            let Err(BenchError::Options(why)) = parsed(line) else { panic!("{line}") };
            assert!(why.starts_with(option), "{line}: {why}");
        }
        for line in [
            "x replay a.txt zipf:1 --frames 1 --pages 10 --requests 10 --format lis",
            "x replay leanstore-vi-b --requests 10",
            "x replay a.bin --bytes 1MiB --frames 1 --policy lru",
        ] {
            assert!(parsed(line).is_ok(), "{line}");
        }
        let found = parsed("x replay a.bin --bytes 1MiB --frames 7").unwrap();
        assert_eq!(found[0].sizes, [CacheSize::Frames(7), CacheSize::Bytes(1 << 20)]);
    }
}
