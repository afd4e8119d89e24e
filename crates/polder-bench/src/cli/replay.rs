//! `replay`: from its arguments to its table.

use std::path::PathBuf;
use std::time::Duration;

use indicatif::ProgressBar;
use polder_pool::replacement::ReplacementKind;

use super::args::{ReplayArgs, theta};
use super::{listen, print, to_json};
use crate::error::BenchError;
use crate::replay::{CacheSize, Paper, Replay, Source, Zipfian, table};

/// What the paper's table has beside the policies as they are by themselves.
const PAPER_SHARES: [u8; 3] = [5, 20, 50];

pub(super) fn run(args: &ReplayArgs) -> Result<(), BenchError> {
    let replays: Vec<Replay> =
        args.traces.iter().map(|trace| resolve(trace, args)).collect::<Result<_, _>>()?;
    let interrupt = listen()?;
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(200));
    for replay in replays {
        let rows = replay.run(&interrupt, &spinner)?;
        spinner.suspend(|| {
            if args.json {
                rows.iter().try_for_each(|row| print(&to_json(row)?))
            } else {
                print(table(&rows).trim_end())
            }
        })?;
    }
    spinner.finish_and_clear();
    Ok(())
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
    Ok(Replay { source, policies, sizes })
}

fn source(trace: &str, args: &ReplayArgs) -> Result<Source, BenchError> {
    if trace == Paper::NAME {
        return Ok(Source::Paper(Paper { requests: args.requests }));
    }
    let Some(exponent) = trace.strip_prefix("zipf:") else {
        return Ok(Source::File(PathBuf::from(trace), args.format));
    };
    let refused = |why: String| BenchError::Options(format!("{trace}: {why}"));
    let theta = theta(exponent).map_err(refused)?;
    let pages = u32::try_from(args.pages);
    let pages = pages.map_err(|_| refused(format!("{} pages are too many", args.pages)))?;
    Ok(Source::Zipfian(Zipfian { theta, pages, requests: args.requests }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command};
    use clap::Parser;

    fn replays(line: &str) -> Result<Vec<Replay>, BenchError> {
        let Ok(Cli { command: Command::Replay(args) }) =
            Cli::try_parse_from(line.split_whitespace())
        else {
            panic!("{line} is not parsed")
        };
        args.traces.iter().map(|trace| resolve(trace, &args)).collect()
    }

    #[test]
    fn traces_policies_and_sizes_are_resolved() {
        let line = "x replay a.lis zipf:0.8 --policy clock,cooling:5 --frames 10,1k --bytes 1MiB \
                    --pages 500 --requests 7k";
        let found = replays(&line.replace('\\', "")).unwrap();
        let [file, zipf] = &found[..] else { panic!("{found:?}") };
        assert_eq!(file.source.name(), "a.lis");
        let cooling = ReplacementKind::Cooling { percent: 5 };
        assert_eq!(file.policies, [ReplacementKind::Clock, cooling]);
        let sizes = [CacheSize::Frames(10), CacheSize::Frames(1000), CacheSize::Bytes(1 << 20)];
        assert_eq!(file.sizes, sizes);
        let Source::Zipfian(zipfian) = &zipf.source else { panic!("{zipf:?}") };
        assert_eq!((zipfian.theta, zipfian.pages, zipfian.requests), (0.8, 500, 7000));
    }

    #[test]
    fn the_papers_table_needs_no_sizes() {
        let found = replays("x replay leanstore-vi-b").unwrap();
        assert_eq!(found[0].sizes, [CacheSize::Frames(65_536)]);
        assert_eq!(found[0].policies.len(), ReplacementKind::ALL.len() + 3);
        let found = replays("x replay a.lis --frames 1").unwrap();
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
        ] {
            assert!(matches!(replays(line), Err(BenchError::Options(_))), "{line}");
        }
        for line in ["x replay", "x replay a --frames 0", "x replay a --policy arc --frames 1"] {
            assert!(Cli::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }
}
