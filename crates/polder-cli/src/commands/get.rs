//! `polder get`: the value of a key, or of many.

use std::io::{self, Write};

use polder::Table;
use serde_json::json;

use super::{Context, no_such_key};
use crate::args::GetArgs;
use crate::exchange::{Format, Writer};
use crate::failure::Failure;
use crate::input::{Input, Line};
use crate::opening::with_table;
use crate::output::{self, Output};
use crate::text;
use crate::units::plural;

/// Keys that are looked up together.
const KEYS_A_CALL: usize = 1024;
/// Bytes of values that are held at most, beyond one call's.
const MOST_BYTES: usize = 16 << 20;

pub fn run(context: &Context, args: &GetArgs) -> Result<(), Failure> {
    let given = |key| text::given(key, args.text.escaped);
    let keys = args.keys.iter().map(|key| given(key)).collect::<Result<Vec<_>, _>>()?;
    match &keys[..] {
        [key] if args.keys_from.is_none() => one(context, args, key),
        _ if args.raw => Err(Failure::Usage("--raw is for one key".into())),
        _ => many(context, args, keys),
    }
}

fn one(context: &Context, args: &GetArgs, key: &[u8]) -> Result<(), Failure> {
    let value = with_table(&args.store, &args.table, |table| Ok(table.get(key)?))?;
    let value = value.ok_or_else(|| no_such_key(&args.table, key))?;
    if context.json {
        output::print_json(&json!({ "key": text::json(key), "value": text::json(&value) }))
    } else if args.raw {
        let mut out = Output::new();
        out.bytes(&value)?;
        out.finish()
    } else {
        output::print(&text::value(&value))
    }
}

/// Prints what is there in the order of the keys.
fn many(context: &Context, args: &GetArgs, mut keys: Vec<Vec<u8>>) -> Result<(), Failure> {
    let mut more =
        args.keys_from.as_ref().map(|file| Input::open(file, &context.stop)).transpose()?;
    let (mut asked, mut missing, mut first) = (0, 0, None);
    with_table(&args.store, &args.table, |table| {
        let format = if context.json { Format::Jsonl } else { Format::Tsv };
        let mut out = Writer::new(format, io::stdout().lock());
        loop {
            while keys.len() < KEYS_A_CALL
                && let Some(key) = next_key(more.as_mut(), args.text.escaped)?
            {
                keys.push(key);
            }
            if keys.is_empty() {
                break;
            }
            context.stop.check()?;
            let mut rest = &keys[..];
            while !rest.is_empty() {
                let values = look_up(table, rest)?;
                for (key, value) in rest.iter().zip(&values) {
                    match value {
                        Some(value) => out.entry(None, key, value).map_err(Failure::output)?,
                        None => {
                            missing += 1;
                            first.get_or_insert_with(|| key.clone());
                        }
                    }
                }
                rest = &rest[values.len()..];
            }
            asked += keys.len() as u64;
            keys.clear();
        }
        out.finish().and_then(|mut out| out.flush()).map_err(Failure::output)
    })?;
    match first {
        None => Ok(()),
        Some(first) if missing == 1 => Err(no_such_key(&args.table, &first)),
        Some(first) => Err(Failure::NotFound(format!(
            "of {} {missing} are not in table {}, {} the first of them",
            plural(asked, "key", "keys"),
            args.table,
            text::key(&first)
        ))),
    }
}

/// The values of the first keys, as many as are looked up together.
fn look_up(table: &Table, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Failure> {
    let mut count = keys.len().min(KEYS_A_CALL);
    loop {
        let (mut values, mut bytes) = (vec![None; count], 0);
        table.get_many(&keys[..count], |i, value| {
            bytes += value.map_or(0, <[u8]>::len);
            if bytes <= MOST_BYTES || count == 1 {
                values[i] = value.map(<[u8]>::to_vec);
            }
        })?;
        if bytes <= MOST_BYTES || count == 1 {
            return Ok(values);
        }
        count = count.div_ceil(8);
    }
}

/// The key on the next line, if there is one.
fn next_key(from: Option<&mut Input>, escaped: bool) -> Result<Option<Vec<u8>>, Failure> {
    let Some(from) = from else { return Ok(None) };
    let mut line = Vec::new();
    match from.next_line(&mut line)? {
        Line::End => Ok(None),
        Line::TooLong => {
            Err(Failure::Usage(format!("{}: {}", from.name(), crate::input::TOO_LONG)))
        }
        Line::Whole if !escaped => Ok(Some(line)),
        Line::Whole => text::unescape(&line).map(Some).ok_or_else(|| {
            let shown = String::from_utf8_lossy(&line);
            Failure::Usage(format!("{}: in {shown:?} {}", from.name(), text::HALF_AN_ESCAPE))
        }),
    }
}
