//! Figures as a JSON document, for other processes and other languages.

use std::fmt::{self, Write};

use polder_pool::{Migration, MissRatios, NodeStats, TierMissRatios, TierStats};

use super::{Stats, TableStats};
use crate::recovery::Recovery;

/// What the document says of itself first. It rises when a name gets another meaning or goes; new
/// names may come at any time.
const VERSION: u32 = 1;

/// Points of the curve of miss ratios, a multiple of four: it ends at four times the pool.
const CURVE_POINTS: u64 = 32;

/// What is told beside the figures.
pub(crate) struct About<'a> {
    pub(crate) translation: &'a str,
    pub(crate) read_only: bool,
    pub(crate) recovery: &'a Recovery,
}

/// The document, with the end of a line behind it.
pub(crate) fn document(about: &About<'_>, stats: &Stats) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, about, stats);
    text
}

fn write(out: &mut String, about: &About<'_>, stats: &Stats) -> fmt::Result {
    let About { translation, read_only, recovery } = about;
    write!(out, r#"{{"version":{VERSION},"process":{}"#, std::process::id())?;
    write!(out, r#","translation":{},"read_only":{read_only}"#, Text(translation))?;
    let Recovery { log_bytes, groups, redone, restored_pages, cut_short, superblock } = recovery;
    write!(out, r#","recovery":{{"log_bytes":{log_bytes},"groups":{groups},"redone":{redone}"#)?;
    write!(out, r#","restored_pages":{restored_pages},"cut_short":"#)?;
    text_or_null(out, cut_short.as_deref())?;
    out.push_str(r#","superblock":"#);
    text_or_null(out, superblock.as_deref())?;
    out.push('}');
    for (name, number) in numbers(stats) {
        write!(out, r#","{name}":{number}"#)?;
    }
    write!(out, r#","device_way":{}"#, Text(stats.pool.device_way.name()))?;
    out.push_str(r#","live_refused":"#);
    text_or_null(out, stats.live_refused.as_deref())?;
    out.push_str(r#","miss_ratios":"#);
    match &stats.pool.miss_ratios {
        Some(ratios) if cfg!(feature = "miss-ratios") => miss_ratios(out, ratios)?,
        _ => out.push_str("null"),
    }
    out.push_str(r#","migration":"#);
    match &stats.pool.migration {
        Some(probabilities) if cfg!(feature = "tiers") => migration(out, probabilities)?,
        _ => out.push_str("null"),
    }
    out.push_str(r#","nodes":["#);
    list(out, &stats.pool.nodes, |out, node: &NodeStats| {
        let NodeStats { node, frames, frames_free, .. } = node;
        write!(out, r#"{{"node":{},"frames":{frames},"frames_free":{frames_free}}}"#, node.get())
    })?;
    out.push_str(r#"],"tiers":["#);
    if cfg!(feature = "tiers") {
        list(out, &stats.pool.tiers, |out, tier: &TierStats| {
            let TierStats { frames, frames_free, hits, .. } = tier;
            write!(out, r#"{{"frames":{frames},"frames_free":{frames_free},"hits":{hits}}}"#)
        })?;
    }
    out.push_str(r#"],"tables":["#);
    list(out, &stats.tables, |out, table: &TableStats| {
        let TableStats { name, entries, pages, resident_pages, dirty_pages } = table;
        write!(out, r#"{{"name":{},"entries":{entries},"pages":{pages}"#, Text(name))?;
        write!(out, r#","resident_pages":{resident_pages},"dirty_pages":{dirty_pages}}}"#)
    })?;
    out.push_str("]}\n");
    Ok(())
}

fn migration(out: &mut String, migration: &Migration) -> fmt::Result {
    let Migration { read_promotes, write_promotes, loads_to_slower, evicts_to_slower } = *migration;
    let [dr, dw, rr, rw] =
        [read_promotes, write_promotes, loads_to_slower, evicts_to_slower].map(Ratio);
    write!(out, r#"{{"read_promotes":{dr},"write_promotes":{dw}"#)?;
    write!(out, r#","loads_to_slower":{rr},"evicts_to_slower":{rw}}}"#)
}

/// With as many points of the curve as a picture needs.
fn miss_ratios(out: &mut String, ratios: &MissRatios) -> fmt::Result {
    let MissRatios { interval, accesses, noted, dropped, .. } = ratios;
    write!(out, r#"{{"interval":{interval},"accesses":{accesses}"#)?;
    write!(out, r#","noted":{noted},"dropped":{dropped},"tiers":["#)?;
    list(out, &ratios.tiers, |out, tier: &TierMissRatios| {
        let TierMissRatios { frames, half, once, twice, .. } = tier;
        let [half, once, twice] = [half, once, twice].map(|ratio| Ratio(*ratio));
        write!(out, r#"{{"frames":{frames},"half":{half},"once":{once},"twice":{twice}}}"#)
    })?;
    out.push_str(r#"],"curve":["#);
    let sizes = (1..=CURVE_POINTS).map(|point| ratios.most_frames() * point / CURVE_POINTS);
    let points = sizes.filter_map(|frames| Some((frames, ratios.at_frames(frames)?)));
    list(out, &points.collect::<Vec<_>>(), |out, (frames, ratio): &(u64, f64)| {
        write!(out, r#"{{"frames":{frames},"ratio":{}}}"#, Ratio(*ratio))
    })?;
    out.push_str("]}");
    Ok(())
}

/// From 0 to 1, with five digits. By whole numbers: what writes any number with a fraction is most of
/// 30 kB, which a program that writes no other would have for this.
struct Ratio(f64);

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = (self.0 * 1e5).round() as u64;
        write!(f, "{}.{:05}", digits / 100_000, digits % 100_000)
    }
}

fn list<T>(
    out: &mut String,
    all: &[T],
    one: impl Fn(&mut String, &T) -> fmt::Result,
) -> fmt::Result {
    all.iter().enumerate().try_for_each(|(i, it)| {
        if i > 0 {
            out.push(',');
        }
        one(out, it)
    })
}

/// Makes a list of fields and their names.
macro_rules! named {
    ($of:expr; $($field:ident)+) => {
        [$((stringify!($field), $of.$field)),+]
    };
}

fn numbers(stats: &Stats) -> impl IntoIterator<Item = (&'static str, u64)> {
    let of_pool = named!(stats.pool;
        memory_budget_bytes frames frames_free frames_taken_near frames_taken_far page_size_bytes
        tier_promotions tier_demotions migration_nanos page_moves moved_bytes
        hits faults prewarmed_pages evictions foreground_evictions frame_waits write_backs restarts
        hole_punches give_backs promotions copies pages_by_table
        resident_pages dirty_pages frame_bytes metadata_bytes translation_bytes page_table_bytes
        frame_page_table_bytes huge_page_bytes device_reads device_writes device_read_bytes device_written_bytes
        checkpoint_page_bytes evicted_page_bytes map_page_bytes file_bytes
    );
    let of_store = named!(stats;
        prewarm_listed_pages prewarm_skipped_pages prewarm_ms saved_resident_pages save_resident_ms
        log_written_bytes log_image_bytes log_zeroed_bytes atomic_write_bytes double_write_bytes
        log_replay_bytes log_stops log_file_bytes log_limit_bytes log_durable_lsn
    );
    of_pool.into_iter().chain(of_store)
}

fn text_or_null(out: &mut String, text: Option<&str>) -> fmt::Result {
    match text {
        Some(text) => write!(out, "{}", Text(text)),
        None => out.write_str("null"),
    }
}

/// A string in quotes.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\0'..='\x1f' => write!(f, "\\u{:04x}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(stats: &Stats) -> Value {
        of_recovered(&Recovery::default(), stats)
    }

    fn of_recovered(recovery: &Recovery, stats: &Stats) -> Value {
        let about = About { translation: "array", read_only: false, recovery };
        serde_json::from_str(&document(&about, stats)).unwrap()
    }

    /// Each field has the name that it has in Rust.
    #[test]
    fn programs_get_every_figure() {
        let stats = Stats::default();
        let all = of(&stats);
        let mut names: Vec<&String> = all.as_object().unwrap().keys().collect();
        names.retain(|name| {
            !["version", "process", "translation", "read_only", "recovery"].contains(&name.as_str())
        });
        let shown = format!("{stats:#?}");
        let fields = shown.lines().filter_map(|line| line.trim().split_once(": "));
        let mut expected: Vec<&str> = fields.map(|(field, _)| field).collect();
        // These are told one by one, and table by table.
        expected.retain(|field| !["pool", "spaces"].contains(field));
        expected.sort_unstable();
        names.sort_unstable();
        assert_eq!(names, expected);
    }

    /// So has what was recovered.
    #[test]
    fn programs_get_all_of_a_recovery() {
        let of =
            |recovery: &Recovery| of_recovered(recovery, &Stats::default())["recovery"].clone();
        let none = of(&Recovery::default());
        assert_eq!((&none["cut_short"], &none["superblock"]), (&Value::Null, &Value::Null));
        let recovery = Recovery {
            log_bytes: 1,
            groups: 2,
            redone: 3,
            restored_pages: 4,
            cut_short: Some("a \"torn\" group".into()),
            superblock: Some("a torn superblock".into()),
        };
        let expected = json!({
            "log_bytes": 1,
            "groups": 2,
            "redone": 3,
            "restored_pages": 4,
            "cut_short": "a \"torn\" group",
            "superblock": "a torn superblock",
        });
        assert_eq!(of(&recovery), expected);
    }

    #[test]
    fn what_is_said_comes_out() {
        let name = "a \"table\" \\ of\n\u{1}\t words \u{7f} and 🌷";
        let table = TableStats { name: name.into(), entries: 7, ..TableStats::default() };
        let stats = Stats { tables: vec![table.clone(), table], ..Stats::default() };
        let all = of(&stats);
        assert_eq!(all["version"], 1);
        assert_eq!(all["tables"].as_array().unwrap().len(), 2);
        assert_eq!(all["tables"][1]["name"], name);
        assert_eq!(all["tables"][1]["entries"], 7);
    }
}
