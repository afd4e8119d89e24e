//! All that may be missing after a salvage, in sentences.

use super::{KeyGap, Loss, SalvageReport, SalvagedTable};

impl Loss {
    /// Something that may be missing of any table.
    pub(super) fn of_store(what: String) -> Loss {
        Loss { table: None, what }
    }
}

/// Names of tables may be missing.
pub(super) fn of_catalogue(gaps: &[KeyGap], report: &mut SalvageReport) {
    if !gaps.is_empty() {
        let what = "names of tables: a page of the catalogue was not found".to_string();
        report.losses.push(Loss::of_store(what));
    }
}

/// Compares what was saved with what there was.
pub(super) fn sum_up(report: &mut SalvageReport) {
    let mut losses = std::mem::take(&mut report.losses);
    if report.pages_missing > 0 {
        let pages = report.pages_missing;
        let pages = plural(pages, "page", "pages");
        let what = format!("what was in {pages} in use, not found or not readable");
        losses.push(Loss::of_store(what));
    }
    for gap in &report.log_gaps {
        let (from, to) = (gap.from, gap.to);
        losses.push(Loss::of_store(format!("changes in the log from LSN {from} to {to}")));
    }
    for table in &report.tables {
        let name = &table.name;
        losses.extend(of_table(table).map(|what| Loss { table: Some(name.clone()), what }));
    }
    report.losses = losses;
}

fn of_table(table: &SalvagedTable) -> impl Iterator<Item = String> {
    let SalvagedTable { entries, lost, doubtful, .. } = *table;
    let there = entries + lost;
    let counted = match table.counted {
        Some(counted) if counted > there => {
            let missing = plural(counted - there, "entry", "entries");
            Some(format!("{missing} of the {counted} that the log counts"))
        }
        Some(counted) if counted < there => Some(format!(
            "entries in whose place removed ones came back: the log counts {counted}, not {there}"
        )),
        // Without maps an old leaf may stand for one that is lost.
        None if doubtful > 0 => {
            Some("entries: neither maps nor log tell which there were".to_string())
        }
        _ => None,
    };
    let lost = (lost > 0).then(|| format!("the values of {}", plural(lost, "key", "keys")));
    let gaps = (table.key_gaps > 0).then(|| {
        let stretches = plural(table.key_gaps, "stretch", "stretches");
        format!("entries in {stretches} of keys of which no leaf tells")
    });
    let name = (!table.named).then(|| "its name".to_string());
    [counted, lost, gaps, name].into_iter().flatten()
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
