//! `polder check`: reads everything and reports what is wrong.

use polder::{CheckFault, CheckReport, DeepFault, DeepPhase, DeepReport, Store};
use serde_json::{Value, json};

use super::Context;
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::opening::with_store_to_read;
use crate::output::{self, Output};
use crate::progress::{Phases, Unit};
use crate::units::{bytes, plural};

/// What a check counts.
const PAGES: Unit = Unit::Things("pages");

pub fn run(context: &Context, args: &CheckArgs) -> Result<(), Failure> {
    let (check, deep) = with_store_to_read(&args.store, |store| {
        Ok(if args.deep {
            let deep = look_deep(context, store)?;
            (deep.check.clone(), Some(deep))
        } else {
            (look(context, store)?, None)
        })
    })?;
    if context.json {
        output::print_json(&as_json(&check, deep.as_ref()))?;
    } else {
        print(&check, deep.as_ref())?;
    }
    let faults = check.faults.len() + deep.map_or(0, |deep| deep.faults.len());
    if faults == 0 {
        return Ok(());
    }
    let faults = plural(faults as u64, "fault", "faults");
    let dir = args.store.dir.display();
    Err(Failure::Damaged(format!("{dir} is damaged: {faults} found")))
}

fn look(context: &Context, store: &Store) -> Result<CheckReport, Failure> {
    let mut shown = Phases::new(&context.stop);
    let report = store.check(&mut |done, all| shown.at("checking", PAGES, done, all));
    shown.end()?;
    Ok(report?)
}

fn look_deep(context: &Context, store: &Store) -> Result<DeepReport, Failure> {
    let mut shown = Phases::new(&context.stop);
    let report = store.check_deep(&mut |phase, done, all| {
        let (label, unit) = match phase {
            DeepPhase::Log => ("reading the log", Unit::Bytes),
            DeepPhase::Pages => ("reading pages", PAGES),
            _ => ("checking", PAGES),
        };
        shown.at(label, unit, done, all)
    });
    shown.end()?;
    Ok(report?)
}

fn print(check: &CheckReport, deep: Option<&DeepReport>) -> Result<(), Failure> {
    let mut out = Output::new();
    for fault in &check.faults {
        out.line(&fault.to_string())?;
    }
    let sound = check.faults.is_empty() && deep.is_none_or(DeepReport::is_sound);
    let verdict = if sound { "sound: " } else { "" };
    let pages = plural(check.pages, "page", "pages");
    let entries = plural(check.entries, "entry", "entries");
    let mut text = format!("{verdict}{pages} and {entries} checked");
    if let Some(deep) = deep {
        deep.faults.iter().try_for_each(|fault| out.line(&fault.to_string()))?;
        deep.notes.iter().try_for_each(|note| out.line(&format!("no fault: {note}")))?;
        let pages = plural(deep.pages, "page", "pages");
        let records = plural(deep.log_records, "record", "records");
        let log = bytes(deep.log_bytes);
        text += &format!("; {pages} and {log} of log with {records} read from the disk");
    }
    out.line(&text)?;
    if !check.unregistered.is_empty() {
        // What lies in them only a program that registers them can tell.
        out.line(&format!("not looked into, being no tables: {}", check.unregistered.join(", ")))?;
    }
    out.finish()
}

fn as_json(check: &CheckReport, deep: Option<&DeepReport>) -> Value {
    let fault = |fault: &CheckFault| json!({ "table": fault.table, "page": fault.page, "what": fault.what });
    let mut all = json!({
        "sound": check.faults.is_empty() && deep.is_none_or(DeepReport::is_sound),
        "pages": check.pages,
        "entries": check.entries,
        "faults": check.faults.iter().map(fault).collect::<Vec<_>>(),
        "unregistered": check.unregistered,
    });
    if let Some(deep) = deep {
        let fault = |fault: &DeepFault| {
            json!({
                "file": fault.file,
                "offset": fault.offset,
                "table": fault.table,
                "page": fault.page,
                "what": fault.what,
            })
        };
        all["deep"] = json!({
            "pages": deep.pages,
            "log_bytes": deep.log_bytes,
            "log_records": deep.log_records,
            "faults": deep.faults.iter().map(fault).collect::<Vec<_>>(),
            "notes": deep.notes,
        });
    }
    all
}
