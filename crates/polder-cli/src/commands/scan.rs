//! `polder scan`: entries in order.

use std::ffi::OsString;
use std::io::{self, StdoutLock, Write};
use std::ops::Bound;

use polder::{Range, Table};
use serde_json::json;

use super::Context;
use crate::args::ScanArgs;
use crate::exchange::{Format, Writer};
use crate::failure::Failure;
use crate::opening::with_table;
use crate::output::Output;
use crate::text;

pub fn run(context: &Context, args: &ScanArgs) -> Result<(), Failure> {
    let bounds = Bounds::new(args)?;
    with_table(&args.store, &args.table, |table| {
        let mut range = bounds.of(table);
        let mut out = Rows::new(context.json, args.keys_only);
        for _ in 0..args.limit.unwrap_or(u64::MAX) {
            context.stop.check()?;
            let entry = if args.reverse { range.next_entry_back()? } else { range.next_entry()? };
            let Some((key, value)) = entry else { break };
            out.row(key, value)?;
        }
        out.finish()
    })
}

/// Which keys.
enum Bounds {
    Prefix(Vec<u8>),
    FromTo(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl Bounds {
    fn new(args: &ScanArgs) -> Result<Bounds, Failure> {
        let key = |given: &Option<OsString>| {
            given.as_ref().map(|key| text::given(key, args.text.escaped)).transpose()
        };
        if let Some(prefix) = key(&args.prefix)? {
            return Ok(Bounds::Prefix(prefix));
        }
        let (from, to) = (key(&args.from)?, key(&args.to)?);
        if let (Some(from), Some(to)) = (&from, &to)
            && from > to
        {
            let (from, to) = (text::key(from), text::key(to));
            return Err(Failure::Usage(format!(
                "there are no keys from {from} to {to}: the first comes after the second"
            )));
        }
        let (from, to) = (from.map(Bound::Included), to.map(Bound::Excluded));
        Ok(Bounds::FromTo(from.unwrap_or(Bound::Unbounded), to.unwrap_or(Bound::Unbounded)))
    }

    fn of(self, table: &Table) -> Range {
        match self {
            Bounds::Prefix(prefix) => table.prefix(&prefix),
            Bounds::FromTo(from, to) => table.range((from, to)),
        }
    }
}

/// Where entries go: as plain rows that can be imported, or their keys alone.
enum Rows {
    Entries(Writer<StdoutLock<'static>>),
    Keys { out: Output, json: bool },
}

impl Rows {
    fn new(json: bool, keys_only: bool) -> Rows {
        if keys_only {
            return Rows::Keys { out: Output::new(), json };
        }
        let format = if json { Format::Jsonl } else { Format::Tsv };
        Rows::Entries(Writer::new(format, io::stdout().lock()))
    }

    fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        match self {
            Rows::Entries(out) => out.entry(None, key, value).map_err(Failure::output),
            Rows::Keys { out, json: true } => {
                out.line(&json!({ "key": text::json(key) }).to_string())
            }
            Rows::Keys { out, json: false } => out.line(&text::key(key)),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Rows::Entries(out) => {
                out.finish().and_then(|mut out| out.flush()).map_err(Failure::output)
            }
            Rows::Keys { out, .. } => out.finish(),
        }
    }
}
