//! `polder check`: reads everything and reports what is wrong.

use polder::{CheckFault, CheckReport};
use serde_json::json;

use super::Context;
use crate::args::StoreArgs;
use crate::failure::Failure;
use crate::opening::with_store;
use crate::output::{self, Output};
use crate::progress::{Progress, Unit};
use crate::units::plural;

pub fn run(context: &Context, args: &StoreArgs) -> Result<(), Failure> {
    let report = with_store(args, |store| {
        let progress = Progress::new("checking", Unit::Things("pages"), Some(0));
        let report = store.check(&mut |done, all| {
            progress.of(all);
            progress.at(done);
            !context.stop.requested()
        });
        context.stop.check()?;
        Ok(report?)
    })?;
    if context.json {
        print_json(&report)?
    } else {
        print(&report)?
    }
    if report.faults.is_empty() {
        return Ok(());
    }
    let faults = plural(report.faults.len() as u64, "fault", "faults");
    let dir = args.dir.display();
    Err(Failure::Damaged(format!("{dir} is damaged: {faults} found")))
}

fn print(report: &CheckReport) -> Result<(), Failure> {
    let mut out = Output::new();
    for fault in &report.faults {
        out.line(&line(fault))?;
    }
    let pages = plural(report.pages, "page", "pages");
    let entries = plural(report.entries, "entry", "entries");
    let verdict = if report.faults.is_empty() { "sound: " } else { "" };
    out.line(&format!("{verdict}{pages} and {entries} checked"))?;
    out.finish()
}

fn line(fault: &CheckFault) -> String {
    let table = fault.table.as_ref().map(|name| format!("table {name}"));
    let page = fault.page.as_ref().map(|page| format!("page {page}"));
    let place: Vec<String> = table.into_iter().chain(page).collect();
    let place = if place.is_empty() { "the store".to_owned() } else { place.join(", ") };
    format!("{place}: {}", fault.what)
}

fn print_json(report: &CheckReport) -> Result<(), Failure> {
    let fault = |fault: &CheckFault| json!({ "table": fault.table, "page": fault.page, "what": fault.what });
    output::print_json(&json!({
        "sound": report.faults.is_empty(),
        "pages": report.pages,
        "entries": report.entries,
        "faults": report.faults.iter().map(fault).collect::<Vec<_>>(),
    }))
}
