//! `polder log`: the log of a store that is not open.

use polder::log_dump::{self, LogEnd, LogEndReason, LogRecord};
use serde_json::{Value, json};

use super::Context;
use crate::args::LogArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::text;
use crate::units::bytes;

pub fn run(context: &Context, args: &LogArgs) -> Result<(), Failure> {
    let mut out = Output::new();
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut outcome = Ok(());
    let end = log_dump::dump(&args.dir, args.from, &mut |record| {
        if left == 0 || context.stop.requested() {
            return false;
        }
        left -= 1;
        let line = if context.json { as_json(record).to_string() } else { line(record) };
        outcome = out.line(&line);
        outcome.is_ok()
    })?;
    outcome?;
    context.stop.check()?;
    if context.json {
        out.line(&json!({ "end": end_as_json(&end) }).to_string())?;
    } else {
        out.line(&format!("{:>12}  {}", end.lsn, end.what))?;
    }
    out.finish()?;
    match end.reason {
        LogEndReason::Damaged => {
            let dir = args.dir.display();
            Err(Failure::Damaged(format!("the log of {dir} is damaged at LSN {}", end.lsn)))
        }
        _ => Ok(()),
    }
}

/// The LSN, the opening, what is durable, the operation, where, and on what.
fn line(record: &LogRecord) -> String {
    let place = match (&record.table, record.space, record.page) {
        (Some(table), _, Some(page)) => format!("{table}/{page}"),
        (None, Some(0), Some(page)) => format!("physical {page}"),
        (None, Some(space), Some(page)) => format!("space {space}/{page}"),
        _ => "-".to_owned(),
    };
    let mut line = format!(
        "{:>12}  {:>4}  {:>12}  {:<12}  {place:<20}  {:>8}",
        record.lsn,
        record.incarnation,
        record.durable,
        record.operation,
        bytes(record.bytes),
    );
    if let Some(key) = &record.key {
        line += &format!("  {}", text::key(key));
    }
    if let Some(value) = record.value_bytes {
        line += &format!("  value {}", bytes(value));
    }
    if !record.detail.is_empty() {
        line += &format!("  ({})", record.detail);
    }
    line
}

fn as_json(record: &LogRecord) -> Value {
    json!({
        "lsn": record.lsn,
        "end": record.end,
        "durable": record.durable,
        "incarnation": record.incarnation,
        "operation": record.operation,
        "space": record.space,
        "table": record.table,
        "page": record.page,
        "key": record.key.as_deref().map(text::json),
        "version": record.version,
        "value_bytes": record.value_bytes,
        "bytes": record.bytes,
        "detail": record.detail,
    })
}

fn end_as_json(end: &LogEnd) -> Value {
    let reason = match end.reason {
        LogEndReason::Complete => "complete",
        LogEndReason::CutShort => "cut short",
        LogEndReason::Damaged => "damaged",
        LogEndReason::Stopped => "stopped",
        _ => "unknown",
    };
    json!({
        "lsn": end.lsn,
        "offset": end.offset,
        "reason": reason,
        "what": end.what,
        "replay_from": end.replay_from,
    })
}
