//! `polder salvage`: what is readable of a damaged store, in a new one.

use polder::{Options, SalvagePhase, SalvageReport, SalvagedTable, salvage};
use serde_json::{Value, json};

use super::Context;
use crate::args::SalvageArgs;
use crate::failure::Failure;
use crate::output::{self, Columns, Output, Side};
use crate::progress::{Progress, Unit};
use crate::text;
use crate::units::{bytes, count, plural};

/// Pages and keys that are named one by one, to people.
const NAMED: usize = 10;

pub fn run(context: &Context, args: &SalvageArgs) -> Result<(), Failure> {
    let options = Options::new(&args.new).memory_budget(args.budget);
    let mut shown: Option<(SalvagePhase, Progress)> = None;
    let report = salvage(&args.damaged, options, &mut |phase, done, all| {
        if shown.as_ref().is_none_or(|(before, _)| *before != phase) {
            // The bar before goes first.
            drop(shown.take());
            let (label, unit) = match phase {
                SalvagePhase::Scanning => ("looking for pages", Unit::Things("pages")),
                SalvagePhase::Names => ("looking for tables", Unit::Bytes),
                _ => ("saving", Unit::Bytes),
            };
            shown = Some((phase, Progress::new(label, unit, Some(all))));
        }
        if let Some((_, progress)) = &shown {
            progress.at(done);
        }
        !context.stop.requested()
    });
    drop(shown);
    let report = report?;
    if context.json {
        output::print_json(&as_json(args, &report))?;
    } else {
        print(args, &report)?;
    }
    context.stop.check()?;
    let lost: u64 = report.tables.iter().map(|table| table.lost).sum();
    if report.pages_unreadable + lost > 0 || !report.log_gaps.is_empty() {
        let (pages, entries) = (
            plural(report.pages_unreadable, "page", "pages"),
            plural(lost, "entry was", "entries were"),
        );
        let gaps = plural(report.log_gaps.len() as u64, "gap", "gaps");
        return Err(Failure::Damaged(format!(
            "not all could be saved: {pages} could not be read, the log has {gaps}, and {entries} lost by name"
        )));
    }
    Ok(())
}

fn print(args: &SalvageArgs, report: &SalvageReport) -> Result<(), Failure> {
    let mut out = Output::new();
    for damage in &report.damage {
        out.line(&format!("damaged: {damage}"))?;
    }
    for page in report.unreadable.iter().take(NAMED) {
        let name = page.page.as_ref().map_or(String::new(), |page| format!("{page}, "));
        out.line(&format!("unreadable: {name}byte {} of data: {}", page.offset, page.what))?;
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
    }
    if !report.tables.is_empty() {
        let right = Side::Right;
        let mut columns = Columns::new(&[Side::Left, right, right, right]);
        columns.row(["table", "saved", "doubtful", "lost"].map(String::from));
        for table in &report.tables {
            let [saved, doubtful, lost] = [table.entries, table.doubtful, table.lost].map(count);
            columns.row([table.name.clone(), saved, doubtful, lost]);
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

fn as_json(args: &SalvageArgs, report: &SalvageReport) -> Value {
    let table = |table: &SalvagedTable| {
        json!({
            "name": table.name,
            "named": table.named,
            "entries": table.entries,
            "doubtful": table.doubtful,
            "lost": table.lost,
            "lost_keys": table.lost_keys.iter().map(|key| text::json(key)).collect::<Vec<_>>(),
        })
    };
    let unreadable = report
        .unreadable
        .iter()
        .map(|page| json!({ "offset": page.offset, "page": page.page, "what": page.what }));
    let gaps = report.log_gaps.iter();
    let gaps = gaps.map(|gap| json!({ "from": gap.from, "to": gap.to, "what": gap.what }));
    json!({
        "new": args.new.display().to_string(),
        "page_size_bytes": report.page_size,
        "tables": report.tables.iter().map(table).collect::<Vec<_>>(),
        "pages": report.pages,
        "leaves": report.leaves,
        "pages_unreadable": report.pages_unreadable,
        "unreadable": unreadable.collect::<Vec<_>>(),
        "log_bytes": report.log_bytes,
        "log_records": report.log_records,
        "log_gaps": gaps.collect::<Vec<_>>(),
        "damage": report.damage,
        "interrupted": report.stopped,
    })
}
