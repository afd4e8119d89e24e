//! `polder salvage`: what is readable of a damaged store, in a new one.

use polder::{
    KeyGap, Loss, Options, SalvagePhase, SalvageReport, SalvagedTable, UnreadablePage, salvage,
};
use serde_json::{Value, json};

use super::Context;
use crate::args::SalvageArgs;
use crate::failure::Failure;
use crate::opening::with_structures;
use crate::output::{self, Columns, Output, Side};
use crate::progress::{Phases, Unit};
use crate::text;
use crate::units::{bytes, count, plural};

/// Pages and keys that are named one by one, to people.
const NAMED: usize = 10;

pub fn run(context: &Context, args: &SalvageArgs) -> Result<(), Failure> {
    let options = with_structures(Options::new(&args.new)).memory_budget(args.budget.as_u64());
    let mut shown = Phases::new(&context.stop);
    let report = salvage(&args.damaged, options, &mut |phase, done, all| {
        let (label, unit) = shown_as(phase);
        shown.at(label, unit, done, all)
    });
    drop(shown);
    let report = report?;
    if context.json {
        output::print_json(&as_json(args, &report))?;
    } else {
        print(args, &report)?;
    }
    context.stop.check()?;
    if report.losses.is_empty() {
        return Ok(());
    }
    let entries: u64 = report.tables.iter().map(|table| table.entries).sum();
    let losses: Vec<String> = report.losses.iter().take(NAMED).map(sentence).collect();
    let more = report.losses.len() - losses.len();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Err(Failure::Loss(format!(
        "{} saved, but these may be missing: {}{more}",
        plural(entries, "entry was", "entries were"),
        losses.join("; "),
    )))
}

/// What is said of a phase, and what it counts.
fn shown_as(phase: SalvagePhase) -> (&'static str, Unit) {
    match phase {
        SalvagePhase::Scanning => ("looking for pages", Unit::Things("pages")),
        SalvagePhase::Names => ("looking for tables", Unit::Bytes),
        SalvagePhase::Structures => ("saving structures", Unit::Things("pages")),
        SalvagePhase::Collections => {
            ("comparing collections", Unit::Things("keys, rows and vectors"))
        }
        _ => ("saving tables", Unit::Bytes),
    }
}

/// What may be missing, and where.
fn sentence(loss: &Loss) -> String {
    match &loss.table {
        Some(table) => format!("of table {table}, {}", loss.what),
        None => loss.what.clone(),
    }
}

fn print(args: &SalvageArgs, report: &SalvageReport) -> Result<(), Failure> {
    let mut out = Output::new();
    for damage in &report.damage {
        out.line(&format!("damaged: {damage}"))?;
    }
    for (what, pages) in [("unreadable", &report.unreadable), ("missing", &report.missing)] {
        for page in pages.iter().take(NAMED) {
            let name = page.page.as_ref().map_or(String::new(), |page| format!("{page}, "));
            out.line(&format!("{what}: {name}byte {} of data: {}", page.offset, page.what))?;
        }
    }
    for gap in &report.log_gaps {
        out.line(&format!(
            "unreadable: the log from LSN {} to {}: {}",
            gap.from, gap.to, gap.what
        ))?;
    }
    for table in &report.tables {
        for key in table.lost_keys.iter().take(NAMED) {
            out.line(&format!("lost: the value of {} in table {}", text::key(key), table.name))?;
        }
        for gap in table.gaps.iter().take(NAMED) {
            out.line(&format!(
                "missing: a leaf of table {} for the keys {}",
                table.name,
                range(gap)
            ))?;
        }
    }
    if !report.tables.is_empty() {
        let right = Side::Right;
        let mut columns = Columns::new(&[Side::Left, right, right, right, right]);
        columns.row(["table", "saved", "counted", "doubtful", "lost"].map(String::from));
        for table in &report.tables {
            let [saved, doubtful, lost] = [table.entries, table.doubtful, table.lost].map(count);
            let counted = table.counted.map_or("unknown".to_string(), count);
            columns.row([table.name.clone(), saved, counted, doubtful, lost]);
        }
        columns.lines().iter().try_for_each(|line| out.line(line))?;
    }
    if report.tables.iter().any(|table| table.doubtful > 0) {
        out.line("doubtful: at most so many come from pages that may have been freed before")?;
    }
    let entries = report.tables.iter().map(|table| table.entries).sum();
    let (entries, pages) =
        (plural(entries, "entry", "entries"), plural(report.pages, "page", "pages"));
    let (log, new) = (bytes(report.log_bytes), args.new.display());
    out.line(&format!("{entries} saved in {new}, from {pages} and {log} of log"))?;
    out.finish()
}

/// The keys of a stretch, for people.
fn range(gap: &KeyGap) -> String {
    match (gap.from.as_slice(), &gap.to) {
        ([], None) => "from the first to the last".to_string(),
        ([], Some(to)) => format!("before {}", text::key(to)),
        (from, None) => format!("from {} on", text::key(from)),
        (from, Some(to)) => format!("from {} to before {}", text::key(from), text::key(to)),
    }
}

fn as_json(args: &SalvageArgs, report: &SalvageReport) -> Value {
    let table = |table: &SalvagedTable| {
        json!({
            "name": table.name,
            "named": table.named,
            "entries": table.entries,
            "counted": table.counted,
            "doubtful": table.doubtful,
            "lost": table.lost,
            "lost_keys": table.lost_keys.iter().map(|key| text::json(key)).collect::<Vec<_>>(),
            "key_gaps": table.key_gaps,
            "gaps": table.gaps.iter().map(|gap| json!({
                "from": text::json(&gap.from),
                "to": gap.to.as_ref().map(|to| text::json(to)),
            })).collect::<Vec<_>>(),
        })
    };
    let pages = |pages: &[UnreadablePage]| -> Vec<Value> {
        let page = |page: &UnreadablePage| json!({ "offset": page.offset, "page": page.page, "what": page.what });
        pages.iter().map(page).collect()
    };
    let gaps = report.log_gaps.iter();
    let gaps = gaps.map(|gap| json!({ "from": gap.from, "to": gap.to, "what": gap.what }));
    let losses = report.losses.iter();
    let losses = losses.map(|loss| json!({ "table": loss.table, "what": loss.what }));
    json!({
        "new": args.new.display().to_string(),
        "page_size_bytes": report.page_size,
        "tables": report.tables.iter().map(table).collect::<Vec<_>>(),
        "pages": report.pages,
        "leaves": report.leaves,
        "pages_unreadable": report.pages_unreadable,
        "unreadable": pages(&report.unreadable),
        "pages_missing": report.pages_missing,
        "missing": pages(&report.missing),
        "log_bytes": report.log_bytes,
        "log_records": report.log_records,
        "log_gaps": gaps.collect::<Vec<_>>(),
        "damage": report.damage,
        "losses": losses.collect::<Vec<_>>(),
        "interrupted": report.stopped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the library documents it.
    #[test]
    fn each_phase_shows_what_it_counts() {
        let units = [
            (SalvagePhase::Scanning, Unit::Things("pages")),
            (SalvagePhase::Names, Unit::Bytes),
            (SalvagePhase::Saving, Unit::Bytes),
            (SalvagePhase::Structures, Unit::Things("pages")),
            (SalvagePhase::Collections, Unit::Things("keys, rows and vectors")),
        ];
        let shown = units.map(|(phase, unit)| {
            let (label, shown) = shown_as(phase);
            assert_eq!(shown, unit, "{phase:?}");
            label
        });
        // A phase with the label of the one before would go on with its bar.
        assert!(shown.windows(2).all(|two| two[0] != two[1]), "{shown:?}");
    }
}
