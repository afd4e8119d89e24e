//! The statistics of a store, and how people see them.

use polder::Store;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Columns, Side};
use crate::recovery::cut_short;
use crate::text;
use crate::units::{bytes, count, percent, plural};

/// All figures of a store that is open here, and of all of its tables.
pub fn of(store: &Store) -> Result<Value, Failure> {
    // Figures pass over one that cannot be opened.
    store.tables()?.iter().try_for_each(|name| store.table(name).map(drop))?;
    let mut figures: Value = serde_json::from_str(&store.stats_json())
        .map_err(|error| Failure::io("cannot understand the statistics")(error.into()))?;
    figures["path"] = json!(store.path().display().to_string());
    Ok(figures)
}

/// Figures for people.
pub fn page(figures: &Value) -> String {
    let number = |name: &str| figures[name].as_u64().unwrap_or(0);
    let text = |name: &str| figures[name].as_str().unwrap_or("").to_owned();
    let mut columns = Columns::new(&[Side::Left, Side::Left]);
    let mut row = |name: &str, what: String| columns.row([name.to_owned(), what]);
    let overhead =
        number("metadata_bytes") + number("translation_bytes") + number("page_table_bytes");
    let is_live = figures["live"].as_bool().unwrap_or(false);
    row("store", text("path"));
    if is_live {
        row("open in", format!("process {}", number("process")));
    }
    let pages = bytes(number("page_size_bytes"));
    row("file", format!("{}, pages of {pages}", bytes(number("file_bytes"))));
    row(
        "log",
        format!(
            "{} of at most {}; a recovery would read {}",
            bytes(number("log_file_bytes")),
            bytes(number("log_limit_bytes")),
            bytes(number("log_replay_bytes")),
        ),
    );
    let left = figures["recovery"]["groups"].as_u64().unwrap_or(0);
    if left > 0 && figures["read_only"].as_bool().unwrap_or(false) {
        let left = plural(left, "change", "changes");
        row("", format!("the store was not closed: {left} in the log to be recovered"));
    }
    // Of a store that was opened here it was said then.
    if let Some(found) = figures["recovery"]["cut_short"].as_str().filter(|_| is_live) {
        row("", format!("when it was opened: {}", cut_short(found)));
    }
    row("memory budget", bytes(number("memory_budget_bytes")));
    let frames = bytes(number("frame_bytes"));
    row("  frames", format!("{frames} ({} pages at a time)", count(number("frames"))));
    for of in figures["nodes"].as_array().into_iter().flatten() {
        let [node, frames] = ["node", "frames"].map(|name| of[name].as_u64().unwrap_or(0));
        row("", format!("{} of them on node {node}", count(frames)));
    }
    for (tier, of) in figures["tiers"].as_array().into_iter().flatten().enumerate() {
        let [frames, free, hits] =
            ["frames", "frames_free", "hits"].map(|name| of[name].as_u64().unwrap_or(0));
        let used = count(frames.saturating_sub(free));
        let found = plural(hits, "page was", "pages were");
        row("", format!("{} in tier {tier}, {used} in use; {found} found there", count(frames)));
    }
    if let Some(migration) = figures["migration"].as_object() {
        let part = |name: &str| percent(migration.get(name).and_then(Value::as_f64).unwrap_or(0.0));
        let [promotes, loads, evicts] =
            ["read_promotes", "loads_to_slower", "evicts_to_slower"].map(part);
        row(
            "",
            format!(
                "to slower memory go {loads} of pages loaded, {evicts} of those that make room"
            ),
        );
        row("", format!("{promotes} of the accesses there bring a page up"));
    }
    row("  to find pages", format!("{} now", bytes(overhead)));
    row("  huge pages", format!("{} of the frames", bytes(number("huge_page_bytes"))));
    row("translation", text("translation"));
    let tables = tables(figures);
    let entries = tables.iter().filter_map(|table| table["entries"].as_u64()).sum();
    let entries = count(entries);
    row("entries", format!("{entries} in {}", plural(tables.len() as u64, "table", "tables")));
    if is_live {
        usage(&number, &mut row);
        row("  many requests at once", format!("by {}", text("device_way")));
    }
    let mut lines = columns.lines();
    if !tables.is_empty() {
        lines.push(String::new());
        lines.extend(lines_of_tables(figures));
    }
    lines.join("\n")
}

/// How it was used since it was opened.
fn usage(number: &dyn Fn(&str) -> u64, row: &mut dyn FnMut(&str, String)) {
    let of_all = |name: &str| count(number(name));
    row(
        "pages",
        format!(
            "{} in memory, {} of them to be written",
            of_all("resident_pages"),
            of_all("dirty_pages")
        ),
    );
    row("  since it was opened", format!("{} found, {} loaded", of_all("hits"), of_all("faults")));
    if number("prewarm_listed_pages") > 0 {
        row(
            "",
            format!(
                "{} loaded ahead, of {} that were in memory before; it took {} ms",
                of_all("prewarmed_pages"),
                of_all("prewarm_listed_pages"),
                of_all("prewarm_ms")
            ),
        );
    }
    row(
        "",
        format!(
            "{} evicted, {} of them while something waited, {} written",
            of_all("evictions"),
            of_all("foreground_evictions"),
            of_all("write_backs")
        ),
    );
    if number("tier_promotions") + number("tier_demotions") > 0 {
        row(
            "",
            format!(
                "{} went to faster memory, {} to slower memory; it took {} ms",
                of_all("tier_promotions"),
                of_all("tier_demotions"),
                count(number("migration_nanos") / 1_000_000)
            ),
        );
    }
    row(
        "device",
        format!(
            "{} read, {} written",
            bytes(number("device_read_bytes")),
            bytes(number("device_written_bytes"))
        ),
    );
    row(
        "  pages",
        format!(
            "{} by checkpoints, {} for room in memory, {} of maps; {} once more against torn writes",
            bytes(number("checkpoint_page_bytes")),
            bytes(number("evicted_page_bytes")),
            bytes(number("map_page_bytes")),
            bytes(number("double_write_bytes"))
        ),
    );
    row(
        "  log",
        format!(
            "{} of changes, {} of that full-page images; {} of zeros",
            bytes(number("log_written_bytes")),
            bytes(number("log_image_bytes")),
            bytes(number("log_zeroed_bytes"))
        ),
    );
    if number("log_stops") > 0 {
        let stops = plural(number("log_stops"), "wait", "waits");
        row("", format!("{stops} of changes, because the log was full"));
    }
}

/// The tables of the store whose figures these are.
pub fn tables(figures: &Value) -> &[Value] {
    figures["tables"].as_array().map_or(&[], Vec::as_slice)
}

/// The figures of each of them, for people.
pub fn lines_of_tables(figures: &Value) -> Vec<String> {
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
    let mut columns = Columns::new(&[Side::Left, Side::Right, Side::Right, Side::Right]);
    columns.row(["table", "entries", "pages", "size"].map(String::from));
    for table in tables(figures) {
        let name = text::key(table["name"].as_str().unwrap_or("").as_bytes());
        let [entries, pages] = ["entries", "pages"].map(|name| number(table, name));
        let size = bytes(pages * number(figures, "page_size_bytes"));
        columns.row([name, count(entries), count(pages), size]);
    }
    columns.lines()
}
