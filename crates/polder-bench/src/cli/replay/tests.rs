use super::*;
use crate::cli::args::{Cli, Command};
use clap::Parser;

fn parsed(line: &str) -> Result<Vec<Replay>, BenchError> {
    let Ok(Cli { command: Command::Replay(args) }) = Cli::try_parse_from(line.split_whitespace())
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
        "x replay a.lis zipf:1 --bytes 1MiB",
        "x replay a.lis --frames 1,1",
        "x replay a.bin --bytes 1MiB,1024KiB",
        "x replay a.lis --frames 1 --policy cooling,lru,cooling:10",
        "x replay a/t.lis b/t.lis --frames 10",
        "x replay t.lis t.lis --frames 10",
        "x replay zipf:1 zipf:1.0 --frames 10",
    ] {
        assert!(matches!(parsed(line), Err(BenchError::Options(_))), "{line}");
    }
    for line in [
        "x replay",
        "x replay a --frames 0",
        "x replay a.lis --frames 1G",
        "x replay zipf:1 --frames 10 --pages 5G",
        "x replay zipf:1 --frames 10 --requests 5G",
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
