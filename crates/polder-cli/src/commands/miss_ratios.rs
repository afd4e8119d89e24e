//! `polder stat --mrc`: how often a page would not be in memory with more of it and with less, for
//! people.

use serde_json::Value;

use crate::bar::bar;
use crate::output::{Columns, Side};
use crate::units::{bytes, count, percent};

/// Accesses that were noted: fewer tell nothing.
const ENOUGH: u64 = 200;
/// Characters of the longest bar.
const BAR: usize = 40;
/// Points of the curve from one bar to the next.
const STEP: usize = 2;

/// What the process tells, for people.
pub fn page(figures: &Value) -> String {
    let ratios = &figures["miss_ratios"];
    if ratios.is_null() {
        return "No miss ratios: the process has them switched off or not built in, keeps all pages in \
                memory, or has memory for fewer than 8,192 pages."
            .to_owned();
    }
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
    let [interval, noted, dropped] =
        ["interval", "noted", "dropped"].map(|name| number(ratios, name));
    if noted < ENOUGH {
        return format!(
            "No miss ratios yet: one page in {interval} is sampled, and only {noted} accesses to \
             those pages were noted."
        );
    }
    let mut lines = about(figures, interval, noted, dropped);
    lines.push(String::new());
    lines.extend(tiers(figures));
    lines.push(String::new());
    lines.extend(curve(figures));
    lines.join("\n")
}

fn about(figures: &Value, interval: u64, noted: u64, dropped: u64) -> Vec<String> {
    let number = |name: &str| figures[name].as_u64().unwrap_or(0);
    let mut columns = Columns::new(&[Side::Left, Side::Left]);
    let mut row = |name: &str, what: String| columns.row([name.to_owned(), what]);
    row("store", figures["path"].as_str().unwrap_or("").to_owned());
    row("open in", format!("process {}", number("process")));
    let (found, loaded) = (number("hits"), number("faults"));
    let missed = percent(loaded as f64 / (found + loaded).max(1) as f64);
    row("pages", format!("{} found, {} loaded: {missed} missed", count(found), count(loaded)));
    let dropped = match dropped {
        0 => String::new(),
        dropped => format!(", {} were not", count(dropped)),
    };
    row("sample", format!("1 page in {interval}: {} accesses were noted{dropped}", count(noted)));
    let mut lines = columns.lines();
    lines.push(String::new());
    lines.push(
        "So many accesses would miss if the least recently used page made room (first uses miss with \
         any memory):"
            .to_owned(),
    );
    lines
}

/// Half, once and twice each tier.
fn tiers(figures: &Value) -> Vec<String> {
    let mut columns = Columns::new(&[Side::Left, Side::Right, Side::Right, Side::Right]);
    let of_tiers = figures["miss_ratios"]["tiers"].as_array().map_or(&[][..], Vec::as_slice);
    let ratio = |of: &Value, name: &str| percent(of[name].as_f64().unwrap_or(0.0));
    let name = |tier: usize, end: u64, before: u64| {
        let memory = size(figures, end - before);
        match of_tiers.len() {
            1 => format!("memory for pages: {memory}"),
            _ => format!("tier {tier}: {memory}"),
        }
    };
    columns.row(["", "half of it", "as it is", "twice"].map(str::to_owned));
    let mut before = 0;
    for (tier, of) in of_tiers.iter().enumerate() {
        let end = of["frames"].as_u64().unwrap_or(0).max(before);
        let ratios = ["half", "once", "twice"].map(|name| ratio(of, name));
        let [half, once, twice] = ratios;
        columns.row([name(tier, end, before), half, once, twice]);
        before = end;
    }
    columns.lines()
}

/// A bar for each quarter of the memory that there is, up to four times that.
fn curve(figures: &Value) -> Vec<String> {
    let mut columns = Columns::new(&[Side::Right, Side::Right, Side::Left]);
    let points = figures["miss_ratios"]["curve"].as_array().map_or(&[][..], Vec::as_slice);
    let ratio = |point: &Value| point["ratio"].as_f64().unwrap_or(0.0);
    let most = points.iter().map(ratio).fold(0.0, f64::max);
    for point in points.iter().skip(STEP - 1).step_by(STEP) {
        let (memory, ratio) = (size(figures, point["frames"].as_u64().unwrap_or(0)), ratio(point));
        columns.row([memory, percent(ratio), bar(ratio, most, BAR)]);
    }
    columns.lines()
}

/// Memory of so many pages.
fn size(figures: &Value, frames: u64) -> String {
    bytes(frames.saturating_mul(figures["page_size_bytes"].as_u64().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn figures(noted: u64) -> Value {
        let point = |i: u64| json!({"frames": 1280 * i, "ratio": 0.5 / i as f64});
        json!({
            "path": "s", "process": 7, "hits": 900, "faults": 100, "page_size_bytes": 4096,
            "miss_ratios": {
                "interval": 64, "accesses": 1000, "noted": noted, "dropped": 3,
                "tiers": [
                    {"frames": 4096, "half": 0.4, "once": 0.3, "twice": 0.2},
                    {"frames": 10_240, "half": 0.25, "once": 0.125, "twice": 0.0}
                ],
                "curve": (1..=32).map(point).collect::<Vec<_>>(),
            },
        })
    }

    #[test]
    fn each_tier_and_each_size_has_a_row() {
        let page = page(&figures(500));
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let rows: Vec<_> = page.lines().map(words).collect();
        let row = |text: &str| assert!(rows.contains(&words(text)), "no {text:?} in\n{page}");
        row("pages 900 found, 100 loaded: 10.00% missed");
        row("sample 1 page in 64: 500 accesses were noted, 3 were not");
        row("tier 0: 16 MiB 40.00% 30.00% 20.00%");
        row("tier 1: 24 MiB 25.00% 12.50% 0.00%");
        row("10 MiB 25.00% ████████████████████");
        row("160 MiB 1.56% █▎");
        assert_eq!(rows.iter().filter(|row| row.len() == 4 && row[1] == "MiB").count(), 16);
    }

    #[test]
    fn too_little_tells_nothing() {
        assert!(page(&figures(10)).starts_with("No miss ratios yet"));
        assert!(page(&json!({"miss_ratios": null})).contains("8,192"));
        assert!(page(&json!({})).contains("8,192"));
    }
}
