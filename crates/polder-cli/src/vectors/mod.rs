//! Files of vectors: rows of numbers, of which each has a key.
//!
//! | ending | what it holds |
//! |---|---|
//! | `.fvecs`, `.bvecs`, `.ivecs` | for each row how many numbers it has, 4 bytes, and the numbers: f32, u8, i32 |
//! | `.npy` | NumPy's array of two dimensions, of f4, f2, i1, u1 or i4 |
//! | `.jsonl` | for each line an array of numbers, or an object with `vector`, and perhaps `key` and `payload` |
//! | `.parquet` | columns `vector`, and perhaps `key` and `payload` (feature `parquet`) |
//!
//! All numbers are little-endian. Where a file says no key, a row's key is its number, from 0, in digits. What
//! is in columns or in objects may be named otherwise ([`Names`]).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use crate::args::Names;
use crate::failure::Failure;

mod elements;
mod lines;
mod npy;
mod numbers;
#[cfg(feature = "parquet")]
mod parquet;
mod vecs;

pub use elements::elements_of;
use numbers::Number;

/// Bytes that are read at a time.
const BUFFER: usize = 1 << 20;
/// Numbers of a row, at most: what says more is no file of vectors.
const MOST_NUMBERS: usize = 1 << 20;

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What the file calls it, or its number.
    pub key: Vec<u8>,
    pub numbers: Vec<f32>,
    pub payload: Vec<u8>,
}

/// A file that is read row by row.
pub struct Rows {
    name: String,
    /// Rows that were read.
    read: u64,
    count: Option<u64>,
    format: Format,
    file: BufReader<File>,
}

enum Format {
    Vecs(Number),
    Npy {
        number: Number,
        columns: usize,
    },
    Lines(Names),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Columns>),
}

/// Why a row cannot be read.
enum Bad {
    Row(String),
    Read(std::io::Error),
}

impl From<std::io::Error> for Bad {
    fn from(error: std::io::Error) -> Bad {
        match error.kind() {
            ErrorKind::UnexpectedEof => Bad::Row("the file ends in the middle of a row".to_owned()),
            _ => Bad::Read(error),
        }
    }
}

impl Rows {
    /// Opens a file; its ending says how it is read.
    pub fn open(path: &Path, names: &Names) -> Result<Rows, Failure> {
        let name = path.display().to_string();
        let ending = path.extension().and_then(OsStr::to_str);
        if let Some(option) = names.given().filter(|_| !matches!(ending, Some("jsonl" | "parquet")))
        {
            let why = format!("{option} is for .jsonl and .parquet: nothing in {name} has a name");
            return Err(Failure::Usage(why));
        }
        let file = File::open(path).map_err(Failure::io(format!("cannot read {name}")))?;
        let bytes = file.metadata().map_err(Failure::io(format!("cannot read {name}")))?.len();
        let mut file = BufReader::with_capacity(BUFFER, file);
        let (format, count) = match ending {
            Some("fvecs") => vecs::begin(Number::F4, bytes, &mut file),
            Some("bvecs") => vecs::begin(Number::U1, bytes, &mut file),
            Some("ivecs") => vecs::begin(Number::I4, bytes, &mut file),
            Some("npy") => npy::begin(&mut file),
            Some("jsonl") => Ok((Format::Lines(names.clone()), None)),
            #[cfg(feature = "parquet")]
            Some("parquet") => parquet::begin(file.get_ref(), names),
            #[cfg(not(feature = "parquet"))]
            Some("parquet") => {
                return Err(Failure::Usage(format!(
                    "{name} can be read only by a program with the feature `parquet`: build this one so, \
                     cargo build --release -p polder-cli --features parquet"
                )));
            }
            _ => {
                let endings = ".fvecs, .bvecs, .ivecs, .npy, .jsonl and .parquet";
                return Err(Failure::Usage(format!(
                    "{name} is no file of vectors that can be read: those end in {endings}"
                )));
            }
        }
        .map_err(|bad| failure(&name, 0, bad))?;
        Ok(Rows { name, read: 0, count, format, file })
    }

    /// How many rows there are, where that is known.
    pub fn count(&self) -> Option<u64> {
        self.count
    }

    /// A failure that is about the row that was read last.
    pub fn failure(&self, why: impl Into<String>) -> Failure {
        failure(&self.name, self.read, Bad::Row(why.into()))
    }

    /// The next row.
    pub fn next(&mut self) -> Result<Option<Row>, Failure> {
        let row = self.read().map_err(|bad| failure(&self.name, self.read + 1, bad))?;
        self.read += u64::from(row.is_some());
        Ok(row)
    }

    fn read(&mut self) -> Result<Option<Row>, Bad> {
        // Its reader has a place of its own in the file.
        #[cfg(feature = "parquet")]
        if let Format::Parquet(columns) = &mut self.format {
            return columns.row(self.read);
        }
        if self.file.fill_buf()?.is_empty() {
            return match self.count {
                Some(count) if count > self.read => {
                    Err(Bad::Row(format!("the file ends, and was to have {count} rows")))
                }
                _ => Ok(None),
            };
        }
        let row = |numbers| Some(Row { key: key_of(self.read), numbers, payload: Vec::new() });
        match &self.format {
            Format::Vecs(number) => Ok(row(vecs::row(*number, &mut self.file)?)),
            Format::Npy { .. } if self.count == Some(self.read) => {
                Err(Bad::Row("there are bytes behind the last row".to_owned()))
            }
            Format::Npy { number, columns } => Ok(row(number.read(*columns, &mut self.file)?)),
            Format::Lines(names) => lines::row(self.read, names, &mut self.file),
            #[cfg(feature = "parquet")]
            Format::Parquet(_) => Ok(None),
        }
    }
}

/// The key of a row that says none.
fn key_of(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn failure(input: &str, line: u64, bad: Bad) -> Failure {
    match bad {
        Bad::Row(why) => Failure::BadVector { input: input.to_owned(), row: line, why },
        Bad::Read(source) => Failure::io(format!("cannot read {input}"))(source),
    }
}

/// Fills `bytes`.
fn fill<const N: usize>(file: &mut impl Read) -> Result<[u8; N], Bad> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
