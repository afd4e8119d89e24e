//! Reads items line by line, and tells of each line that it cannot read.

use std::io;
use std::path::Path;

use csv::ByteRecord;

use super::format::ImportFormat;
use super::item::{Entry, Item};
use super::{jsonl, tsv};
use crate::failure::Failure;
use crate::input::{Input, Line, TOO_LONG};
use crate::interrupt::Interrupt;
use crate::text;
use crate::units::plural;

/// What a line came to: an item, or why it is none.
pub type Next = Result<Item, String>;

/// Items of a file or of standard input.
pub struct Reader {
    name: String,
    bytes: Option<u64>,
    source: Source,
    /// Where the item began that was given last.
    line: u64,
}

enum Source {
    Tsv { reader: csv::Reader<Input>, columns: ByteRecord },
    Lines { input: Input, line: Vec<u8>, kind: Lines },
}

/// What a line is.
enum Lines {
    Json,
    /// A key, or a row in which this column (from zero) is the key. Escapes may be understood.
    Text {
        column: Option<usize>,
        escaped: bool,
    },
}

impl Reader {
    /// Opens a file, or standard input for `-`. `key`: the column that is the key, from zero.
    pub fn open(
        path: &Path,
        format: ImportFormat,
        key: usize,
        escaped: bool,
        stop: &Interrupt,
    ) -> Result<Reader, Failure> {
        let input = Input::open(path, stop)?;
        let (name, bytes) = (input.name().to_owned(), input.bytes());
        let lines = |input, kind| Source::Lines { input, line: Vec::new(), kind };
        let source = match format {
            ImportFormat::Tsv => {
                let reader = tsv::reader(input);
                Source::Tsv { reader, columns: ByteRecord::new() }
            }
            ImportFormat::Jsonl => lines(input, Lines::Json),
            ImportFormat::Lines => lines(input, Lines::Text { column: None, escaped }),
            ImportFormat::Rows => lines(input, Lines::Text { column: Some(key), escaped }),
        };
        Ok(Reader { name, bytes, source, line: 0 })
    }

    /// What to call it in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes in all, where that is known.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Bytes read so far, about.
    pub fn bytes_taken(&self) -> u64 {
        match &self.source {
            Source::Tsv { reader, .. } => reader.position().byte(),
            Source::Lines { input, .. } => input.bytes_taken(),
        }
    }

    /// In which line the item began that was given last, counted from 1; at the end of the input,
    /// the last one.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next line; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Next>, Failure> {
        match &mut self.source {
            Source::Tsv { reader, columns } => {
                let is_first = self.line == 0;
                reader.get_mut().begin_row();
                let there = reader.read_byte_record(columns);
                // Nothing can be read behind a row without an end.
                let bad = |line, why| {
                    let input = self.name.clone();
                    Err(Failure::BadInput { input, line, why })
                };
                let at = columns.position().map_or(self.line + 1, csv::Position::line);
                match there {
                    Ok(false) => Ok(None),
                    Ok(true) if reader.get_ref().is_overdrawn() => {
                        let (began, behind) = tsv::open_quote(columns, reader.position().line());
                        self.line = began;
                        let why = "a quote begins in this line, and has no end".to_owned();
                        if behind == 0 {
                            return Ok(Some(Err(why)));
                        }
                        let lines = plural(behind, "line", "lines");
                        bad(began, format!("{why}; {lines} behind it would be taken for its text"))
                    }
                    Ok(true) => {
                        self.line = at;
                        Ok(Some(tsv::item(columns, is_first)))
                    }
                    Err(error) => match error.into_kind() {
                        csv::ErrorKind::Io(error) => match error.downcast::<Failure>() {
                            Ok(failure) => Err(failure),
                            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                                bad(at, error.to_string())
                            }
                            Err(error) => {
                                Err(Failure::io(format!("cannot read {}", self.name))(error))
                            }
                        },
                        other => bad(at, format!("{other:?}")),
                    },
                }
            }
            Source::Lines { input, line, kind } => {
                let found = input.next_line(line)?;
                if found == Line::End {
                    return Ok(None);
                }
                self.line += 1;
                let next = match found {
                    Line::TooLong => Err(TOO_LONG.to_owned()),
                    _ => kind.item(line),
                };
                Ok(Some(next))
            }
        }
    }
}

impl Lines {
    fn item(&self, line: &[u8]) -> Next {
        let Lines::Text { column, escaped } = self else { return jsonl::item(line) };
        let (key, value) = match column {
            None => (line, &[][..]),
            Some(column) => {
                let mut columns = line.split(|&byte| byte == b'\t');
                let key = columns.nth(*column).ok_or_else(|| {
                    let there = line.split(|&byte| byte == b'\t').count() as u64;
                    let there = plural(there, "column", "columns");
                    format!("the row has {there}, and the key is column {}", column + 1)
                })?;
                (key, line)
            }
        };
        let bytes = |text: &[u8]| match escaped {
            true => text::unescape(text).ok_or_else(|| text::HALF_AN_ESCAPE.to_owned()),
            false => Ok(text.to_vec()),
        };
        Ok(Item::Entry(Entry { table: None, key: bytes(key)?, value: bytes(value)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &[u8], value: &[u8]) -> Next {
        Ok(Item::Entry(Entry { table: None, key: key.into(), value: value.into() }))
    }

    #[test]
    fn lines_and_rows_become_entries() {
        let lines = Lines::Text { column: None, escaped: false };
        assert_eq!(lines.item(b"a\tb\\"), entry(b"a\tb\\", b""));
        assert_eq!(lines.item(b""), entry(b"", b""));
        let second = Lines::Text { column: Some(1), escaped: true };
        assert_eq!(second.item(b"a\tb\\x00"), entry(b"b\0", b"a\tb\0"));
        assert!(second.item(b"a").unwrap_err().contains("has 1 column, and the key is column 2"));
        assert!(second.item(b"a\tb\\").is_err());
    }
}
