//! The page at the end, for somebody who has never heard of a buffer pool; and the same as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::measure::Measured;
use super::plan::Plan;
use super::records::RECORD_BYTES;
use super::{DURABILITY, Findings};
use crate::bar::bar;
use crate::units::{bytes, count, duration, plural};

/// Characters between the edges of the frame.
const WIDTH: usize = 78;
/// Characters of the longest bar.
const BAR: usize = 16;
/// Characters of what a row is about.
const LABEL: usize = 30;

/// The page.
pub fn page(plan: &Plan, findings: &Findings, used: Option<u64>, time: Duration) -> String {
    let mut lines = memory(plan, findings, used);
    lines.push(String::new());
    lines.extend(speed(findings));
    lines.push(String::new());
    lines.extend(meaning(plan, findings, time));
    frame("Polder: more data than memory", &lines)
}

fn memory(plan: &Plan, findings: &Findings, used: Option<u64>) -> Vec<String> {
    let data = findings.file_bytes;
    let most = data.max(plan.budget).max(used.unwrap_or(0));
    let row = |what: &str, size: u64| {
        format!("{what:<LABEL$}{:>10}  {}", bytes(size), bar(size as f64, most as f64, BAR))
    };
    let times = data as f64 / plan.budget as f64;
    let on_disk = format!("Data on disk: {times:.1} x budget");
    let mut lines = vec![row(&on_disk, data), row("Memory it was allowed (budget)", plan.budget)];
    lines.push(match used {
        Some(used) => row("Memory it took at most", used),
        None => "Memory it took at most: this system does not say".into(),
    });
    lines
}

fn speed(findings: &Findings) -> Vec<String> {
    let rows = named(findings);
    let most = rows.iter().map(|(_, _, measured)| measured.rate()).fold(1.0, f64::max);
    let head =
        format!("{:<LABEL$}{:>10}  {:<BAR$} {:>7} {:>9}", "", "a second", "", "hits", "reads/s");
    let row = |(_, label, measured): &(&str, &str, &Measured)| {
        format!(
            "{label:<LABEL$}{:>10}  {:<BAR$} {:>6.1}% {:>9}",
            count(measured.rate() as u64),
            bar(measured.rate(), most, BAR),
            100.0 * measured.hit_ratio(),
            count(measured.device_reads_rate() as u64),
        )
    };
    std::iter::once(head).chain(rows.iter().map(row)).collect()
}

fn meaning(plan: &Plan, findings: &Findings, time: Duration) -> Vec<String> {
    let records = count(plan.records + findings.inserted);
    let text = [
        "hits: of the pages that were needed, the share that was in memory already.".into(),
        "reads/s: pages fetched from the disk in a second, because they were not.".into(),
        "What fits in memory is found at the speed of memory. The rest waits for the disk, and \
         only for the pages that are missing: memory holds what was used last, and makes room by \
         writing back and dropping what was not."
            .into(),
        "Writes ran with the durability `none`: all are logged, and nobody waits for the disk; \
         after a crash those of the last second or so could be missing."
            .into(),
        format!(
            "Every answer was checked. The store was closed, opened again and read from end to \
             end: all {records} records were there, with every one of {} updates. It took {} on \
             {}.",
            count(findings.updates),
            duration(time),
            plural(plan.cores as u64, "core", "cores"),
        ),
    ];
    text.iter().flat_map(|paragraph: &String| wrap(paragraph, WIDTH - 2)).collect()
}

/// The parts by their names for programs and for people.
fn named(findings: &Findings) -> [(&'static str, &'static str, &Measured); 5] {
    [
        ("lookups_resident", "Lookups, what fits in memory", &findings.lookups_resident),
        ("lookups_all", "Lookups, all of the data", &findings.lookups_all),
        ("inserts", "Inserts, at random places", &findings.inserts),
        ("updates_and_inserts", "Updates and inserts, all over", &findings.updates_and_inserts),
        ("scans", "Scans, records read in order", &findings.scans),
    ]
}

/// The page for programs.
pub fn json(plan: &Plan, findings: &Findings, used: Option<u64>, time: Duration) -> Value {
    let part = |(name, _, measured): (&str, &str, &Measured)| {
        json!({
            "name": name,
            "threads": measured.threads,
            "operations": measured.operations,
            "seconds": measured.time.as_secs_f64(),
            "ops_per_s": measured.rate(),
            "hit_ratio": measured.hit_ratio(),
            "device_reads_per_s": measured.device_reads_rate(),
            "device_writes_per_s": measured.device_writes_rate(),
        })
    };
    json!({
        "memory_budget_bytes": plan.budget,
        "memory_used_bytes": used,
        "data_bytes": (plan.records + findings.inserted) * RECORD_BYTES,
        "file_bytes": findings.file_bytes,
        "durability": DURABILITY.to_string(),
        "records": plan.records,
        "inserted": findings.inserted,
        "updates": findings.updates,
        "all_found_again": true,
        "seconds": time.as_secs_f64(),
        "parts": named(findings).map(part),
    })
}

/// Lines of at most `width` characters, broken at blanks.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.len() - 1;
        if !lines[line].is_empty() && lines[line].chars().count() + 1 + word.chars().count() > width
        {
            lines.push(word.to_owned());
        } else {
            if !lines[line].is_empty() {
                lines[line].push(' ');
            }
            lines[line].push_str(word);
        }
    }
    lines
}

fn frame(title: &str, lines: &[String]) -> String {
    let edge = "─".repeat(WIDTH - title.chars().count() - 3);
    let mut out = vec![format!("┌─ {title} {edge}┐")];
    out.extend(lines.iter().map(|line| format!("│ {line:<0$} │", WIDTH - 2)));
    out.push(format!("└{}┘", "─".repeat(WIDTH)));
    out.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_straight_edges() {
        let measured = Measured {
            threads: 2,
            operations: 12_345_678,
            time: Duration::from_secs(1),
            hits: 900,
            faults: 100,
            device_reads: 123_456,
            device_writes: 0,
        };
        let findings = Findings {
            file_bytes: 300 << 20,
            inserted: 100_000,
            updates: 2_000_000,
            inserts: measured,
            lookups_resident: measured,
            lookups_all: Measured { operations: 1000, ..measured },
            updates_and_inserts: measured,
            scans: measured,
        };
        let plan = Plan {
            budget: 64 << 20,
            records: 2_000_000,
            hot: 100,
            part: Duration::from_secs(1),
            cores: 2,
            waiters: 8,
        };
        let page = page(&plan, &findings, Some(63 << 20), Duration::from_secs(50));
        for line in page.lines() {
            assert_eq!(line.chars().count(), WIDTH + 2, "{line}");
        }
        assert!(page.contains("12,345,678") && page.contains("90.0%") && page.contains("64 MiB"));
        let json = json(&plan, &findings, None, Duration::from_secs(50));
        assert_eq!(json["parts"][0]["hit_ratio"], 0.9);
    }
}
