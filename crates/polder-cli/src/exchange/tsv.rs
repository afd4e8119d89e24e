//! Tab-separated columns. A column with a tab or a quote in it stands in quotes, a quote in it twice.

use csv::{ByteRecord, QuoteStyle, ReaderBuilder, WriterBuilder};

use super::item::{Entry, Item, Tally};
use crate::text;

pub const HEAD: [&str; 3] = ["table", "key", "value"];

pub fn writer<W: std::io::Write>(out: W) -> csv::Writer<W> {
    WriterBuilder::new().delimiter(b'\t').quote_style(QuoteStyle::Necessary).from_writer(out)
}

pub fn reader<R: std::io::Read>(source: R) -> csv::Reader<R> {
    // How many columns there are is looked at here.
    ReaderBuilder::new().delimiter(b'\t').has_headers(false).flexible(true).from_reader(source)
}

/// What columns say. Only the first row of a file can be the head: any other one that reads so is an
/// entry.
pub fn item(columns: &ByteRecord, is_first: bool) -> Result<Item, String> {
    let columns: Vec<&[u8]> = columns.iter().collect();
    match columns[..] {
        [key, value] => {
            Ok(Item::Entry(Entry { table: None, key: bytes(key)?, value: bytes(value)? }))
        }
        [table, key, value] if is_first && [table, key, value] == HEAD.map(str::as_bytes) => {
            Ok(Item::Head)
        }
        [b"", b"", end] => {
            let end = String::from_utf8_lossy(end);
            let tables = end.strip_prefix("tables=").and_then(|tables| tables.parse().ok());
            Ok(Item::End { tables: tables.ok_or("the number of tables is missing")? })
        }
        [b"", table, end] => {
            let end = String::from_utf8_lossy(end);
            let parts = end.strip_prefix("entries=").and_then(|end| end.split_once(" crc32c="));
            let parts = parts.and_then(|(entries, hex)| Some((entries.parse().ok()?, hex)));
            let (entries, hex) =
                parts.ok_or("the number of entries and their checksum are missing")?;
            Ok(Item::TableEnd { table: name(table)?, tally: Tally::of(entries, hex)? })
        }
        [table, key, value] => {
            let (key, value) = (bytes(key)?, bytes(value)?);
            Ok(Item::Entry(Entry { table: Some(name(table)?), key, value }))
        }
        _ => Err(format!(
            "there are {} columns; an entry is a key and a value, with a tab between them, and in \
             an export the table before them",
            columns.len()
        )),
    }
}

/// Of a row whose last column has a quote without an end, which lasts up to the end of the input in this
/// line: in which line the quote begins, and how many lines of its text say something.
pub fn open_quote(columns: &ByteRecord, end: u64) -> (u64, u64) {
    let text = columns.iter().next_back().unwrap_or_default();
    let behind = text.split(|&byte| byte == b'\n').skip(1);
    let began = end.saturating_sub(behind.clone().count() as u64);
    (began, behind.filter(|line| !line.is_empty()).count() as u64)
}

fn bytes(column: &[u8]) -> Result<Vec<u8>, String> {
    text::unescape(column).ok_or_else(|| text::HALF_AN_ESCAPE.to_owned())
}

fn name(column: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes(column)?).map_err(|_| "the name of the table is not UTF-8".to_owned())
}
