//! A JSON object a line.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::item::{Entry, Item, Tally};
use crate::text::Bytes;

/// The version of the format.
pub const VERSION: u64 = 1;

/// A line as it stands.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Line<'a> {
    Entry {
        #[serde(skip_serializing_if = "Option::is_none")]
        table: Option<Cow<'a, str>>,
        key: Bytes<'a>,
        value: Bytes<'a>,
    },
    TableEnd {
        table: Cow<'a, str>,
        entries: u64,
        crc32c: Cow<'a, str>,
    },
    Head {
        polder_export: u64,
    },
    End {
        tables: u64,
    },
}

/// Writes a line.
pub fn write(line: &Line<'_>, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// What a line says.
pub fn item(line: &[u8]) -> Result<Item, String> {
    let line = serde_json::from_slice(line).map_err(|error| {
        if error.is_data() {
            return "an entry is an object with a key and a value, and in an export with the table; \
                    each of them is a string, or bytes as {\"escaped\":\"...\"}"
                .to_owned();
        }
        // The line that it names is the first one, always.
        let why = error.to_string();
        let why = why.rsplit_once(" at line ").map_or(&why[..], |(why, _)| why);
        format!("no JSON, at byte {} of the line: {why}", error.column())
    })?;
    Ok(match line {
        Line::Head { polder_export: VERSION } => Item::Head,
        Line::Head { polder_export } => {
            return Err(format!(
                "this is an export of version {polder_export}, and version {VERSION} is what is \
                 known here: use a newer polder"
            ));
        }
        Line::Entry { table, key, value } => Item::Entry(Entry {
            table: table.map(Cow::into_owned),
            key: key.0.into_owned(),
            value: value.0.into_owned(),
        }),
        Line::TableEnd { table, entries, crc32c } => {
            Item::TableEnd { table: table.into_owned(), tally: Tally::of(entries, &crc32c)? }
        }
        Line::End { tables } => Item::End { tables },
    })
}
