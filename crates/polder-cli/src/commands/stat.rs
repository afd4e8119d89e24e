//! `polder stat`: what a store holds and takes.
//!
//! People see what a store is; how it was used they would only see for the moment it was open for
//! this command. Programs get every figure.

use polder::{NodeStats, Stats, Store, TableStats};
use serde_json::{Value, json};

use super::{Context, tables};
use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::opening::with_store;
use crate::output::{self, Columns, Side};
use crate::units::{bytes, count, plural};

pub fn run(context: &Context, args: &StoreArgs) -> Result<(), Failure> {
    let text = with_store(args, |store| {
        let tables = tables::all(store)?;
        let stats = store.stats();
        Ok(if context.json {
            as_json(store, &stats, &tables).to_string()
        } else {
            page(store, &stats, &tables)
        })
    })?;
    output::print(&text)
}

fn page(store: &Store, stats: &Stats, tables: &[TableStats]) -> String {
    let mut columns = Columns::new(&[Side::Left, Side::Left]);
    let mut row = |name: &str, what: String| columns.row([name.to_owned(), what]);
    let overhead = stats.metadata_bytes + stats.translation_bytes + stats.page_table_bytes;
    row("store", store.path().display().to_string());
    row("file", format!("{}, pages of {}", bytes(stats.file_bytes), bytes(stats.page_size_bytes)));
    row(
        "log",
        format!(
            "{} of at most {}; a recovery would read {}",
            bytes(stats.log_file_bytes),
            bytes(stats.log_limit_bytes),
            bytes(stats.log_replay_bytes),
        ),
    );
    row("memory budget", bytes(stats.memory_budget_bytes));
    row(
        "  frames",
        format!("{} ({} pages at a time)", bytes(stats.frame_bytes), count(stats.frames)),
    );
    for NodeStats { node, frames, .. } in &stats.nodes {
        row("", format!("{} of them on {node}", count(*frames)));
    }
    row("  to find pages", format!("{} now", bytes(overhead)));
    row("  huge pages", format!("{} of the frames", bytes(stats.huge_page_bytes)));
    row("translation", store.translation().to_string());
    let entries = count(tables.iter().map(|table| table.entries).sum());
    row("entries", format!("{entries} in {}", plural(tables.len() as u64, "table", "tables")));
    let mut lines = columns.lines();
    if !tables.is_empty() {
        lines.push(String::new());
        lines.extend(tables::lines(tables, store.page_size()));
    }
    lines.join("\n")
}

fn as_json(store: &Store, stats: &Stats, tables: &[TableStats]) -> Value {
    let mut all = figures(stats);
    all["path"] = json!(store.path().display().to_string());
    all["translation"] = json!(store.translation().to_string());
    all["tables"] = json!(tables::as_json(tables));
    all
}

fn figures(stats: &Stats) -> Value {
    json!({
        "memory_budget_bytes": stats.memory_budget_bytes,
        "frames": stats.frames,
        "frames_free": stats.frames_free,
        "nodes": stats.nodes.iter().map(node).collect::<Vec<_>>(),
        "frames_taken_near": stats.frames_taken_near,
        "frames_taken_far": stats.frames_taken_far,
        "page_size_bytes": stats.page_size_bytes,
        "hits": stats.hits,
        "faults": stats.faults,
        "evictions": stats.evictions,
        "write_backs": stats.write_backs,
        "restarts": stats.restarts,
        "hole_punches": stats.hole_punches,
        "promotions": stats.promotions,
        "copies": stats.copies,
        "pages_by_table": stats.pages_by_table,
        "resident_pages": stats.resident_pages,
        "dirty_pages": stats.dirty_pages,
        "frame_bytes": stats.frame_bytes,
        "metadata_bytes": stats.metadata_bytes,
        "translation_bytes": stats.translation_bytes,
        "page_table_bytes": stats.page_table_bytes,
        "huge_page_bytes": stats.huge_page_bytes,
        "device_reads": stats.device_reads,
        "device_writes": stats.device_writes,
        "device_read_bytes": stats.device_read_bytes,
        "device_written_bytes": stats.device_written_bytes,
        "file_bytes": stats.file_bytes,
        "log_replay_bytes": stats.log_replay_bytes,
        "log_stops": stats.log_stops,
        "log_file_bytes": stats.log_file_bytes,
        "log_limit_bytes": stats.log_limit_bytes,
        "log_durable_lsn": stats.log_durable_lsn,
    })
}

fn node(of: &NodeStats) -> Value {
    json!({"node": of.node.get(), "frames": of.frames, "frames_free": of.frames_free})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each field has the name that it has in Rust.
    #[test]
    fn programs_get_every_figure() {
        let stats = Stats::default();
        let all = figures(&stats);
        let names: Vec<&String> = all.as_object().unwrap().keys().collect();
        let shown = format!("{stats:#?}");
        let fields = shown.lines().filter_map(|line| line.trim().split_once(": "));
        let mut expected: Vec<&str> = fields.map(|(field, _)| field).collect();
        // What there is of them is listed with those that are not open.
        expected.retain(|field| *field != "tables");
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
}
