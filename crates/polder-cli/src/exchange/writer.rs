//! Writes entries in either format.

use std::io::{self, Write};

use super::format::Format;
use super::item::Tally;
use super::jsonl::{self, Line};
use super::tsv;
use crate::text::{self, Bytes};

/// Writes entries somewhere. What it is told must be followed by [`Writer::finish`].
pub enum Writer<W: Write> {
    Tsv(Box<csv::Writer<W>>),
    Jsonl(io::BufWriter<W>),
}

impl<W: Write> Writer<W> {
    pub fn new(format: Format, out: W) -> Writer<W> {
        match format {
            Format::Tsv => Writer::Tsv(Box::new(tsv::writer(out))),
            Format::Jsonl => Writer::Jsonl(io::BufWriter::new(out)),
        }
    }

    /// The head of an export.
    pub fn head(&mut self) -> io::Result<()> {
        self.line(|| tsv::HEAD.map(String::from), || Line::Head { polder_export: jsonl::VERSION })
    }

    /// An entry; of an export, with its table.
    pub fn entry(&mut self, table: Option<&str>, key: &[u8], value: &[u8]) -> io::Result<()> {
        let columns = || {
            let table = table.map(|table| text::value(table.as_bytes()));
            table.into_iter().chain([text::value(key), text::value(value)])
        };
        self.line(columns, || Line::Entry {
            table: table.map(Into::into),
            key: Bytes(key.into()),
            value: Bytes(value.into()),
        })
    }

    /// The end of a table of an export.
    pub fn end_table(&mut self, table: &str, tally: Tally) -> io::Result<()> {
        let (entries, hex) = (tally.entries, tally.hex());
        let columns = || {
            let tally = format!("entries={entries} crc32c={hex}");
            [String::new(), text::value(table.as_bytes()), tally]
        };
        self.line(columns, || Line::TableEnd {
            table: table.into(),
            entries,
            crc32c: hex.as_str().into(),
        })
    }

    /// The end of an export.
    pub fn end(&mut self, tables: u64) -> io::Result<()> {
        let columns = || [String::new(), String::new(), format!("tables={tables}")];
        self.line(columns, || Line::End { tables })
    }

    /// Writes out what is buffered, and gives back where it went.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Writer::Tsv(out) => out.into_inner().map_err(csv::IntoInnerError::into_error),
            Writer::Jsonl(out) => out.into_inner().map_err(io::IntoInnerError::into_error),
        }
    }

    fn line<'l, C: IntoIterator<Item = String>>(
        &mut self,
        columns: impl FnOnce() -> C,
        json: impl FnOnce() -> Line<'l>,
    ) -> io::Result<()> {
        match self {
            Writer::Tsv(out) => out.write_record(columns()).map_err(io_error),
            Writer::Jsonl(out) => jsonl::write(&json(), out),
        }
    }
}

/// The error of the writer below.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
