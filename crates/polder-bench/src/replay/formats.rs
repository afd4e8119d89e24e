//! Traces in files: the formats, and which of them a file has.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::STRETCH;
use super::packed::Unpacked;
use super::trace::{Builder, Trace};
use crate::error::{BenchError, quoted};
use crate::interrupt::Interrupt;

/// How requests stand in a file. Each may be compressed with zstd, if its name ends so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Lines `start count 0 request`, of the ARC paper (N. Megiddo and D. Modha, "ARC: A
    /// Self-Tuning, Low Overhead Replacement Cache", FAST 2003): a request for each block.
    Lis,
    /// libCacheSim's oracleGeneral: 24 bytes packed, u32 time, u64 id, u32 size, i64 next.
    Oracle,
    /// A decimal id on each line.
    Ids,
}

const ORACLE_RECORD_BYTES: usize = 24;
/// What a line may ask for at once; more is a damaged file.
const MOST_BLOCKS_PER_LINE: u64 = 1 << 20;

impl Format {
    /// What the name says.
    fn of(path: &Path) -> Option<Format> {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        let name = name.strip_suffix(".zst").unwrap_or(&name);
        if name.ends_with(".lis") {
            Some(Format::Lis)
        } else if name.ends_with(".bin") || name.ends_with(".oracleGeneral") {
            Some(Format::Oracle)
        } else {
            None
        }
    }

    /// Whether the objects of a file know their sizes.
    pub(super) fn has_sizes(said: Option<Format>, path: &Path) -> bool {
        said.or_else(|| Format::of(path)) == Some(Format::Oracle)
    }
}

/// Reads all of it, in the format that was said or that its name says, else as ids.
pub(super) fn read(
    path: &Path,
    said: Option<Format>,
    interrupt: &Interrupt,
) -> Result<Trace, BenchError> {
    let format = said.or_else(|| Format::of(path));
    let file = BufReader::new(File::open(path).map_err(BenchError::file(path))?);
    let is_packed = path.extension().is_some_and(|extension| extension == "zst");
    let source: Box<dyn BufRead> = if is_packed {
        let unpacked = Unpacked::new(file).map_err(BenchError::file(path))?;
        Box::new(BufReader::with_capacity(1 << 16, unpacked))
    } else {
        Box::new(file)
    };
    let mut builder = Builder::default();
    let read = match format {
        Some(Format::Oracle) => read_oracle(source, path, interrupt, &mut builder),
        Some(Format::Lis) => read_lines(source, path, interrupt, |line| blocks(line, &mut builder)),
        Some(Format::Ids) | None => read_lines(source, path, interrupt, |line| {
            builder.request(line.parse().map_err(|_| format!("{} is no id", quoted(line)))?)
        }),
    };
    read.map_err(|error| match (format, error) {
        (None, BenchError::Trace { path, at, why }) => {
            let why = format!("{why} (read as ids: say --format lis or oracle, or unpack it)");
            BenchError::Trace { path, at, why }
        }
        (_, error) => error,
    })?;
    let trace = builder.finish();
    if trace.requests.is_empty() {
        return Err(wrong(path, 1, "there is no request".to_owned()));
    }
    Ok(trace)
}

fn read_lines(
    source: impl BufRead,
    path: &Path,
    interrupt: &Interrupt,
    mut take: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), BenchError> {
    for (number, line) in (1..).zip(source.lines()) {
        if number % STRETCH as u64 == 0 {
            interrupt.check()?;
        }
        let line = line.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => wrong(path, number, "it is not text".to_owned()),
            _ => BenchError::file(path)(error),
        })?;
        if !line.trim().is_empty() {
            take(line.trim()).map_err(|why| wrong(path, number, why))?;
        }
    }
    Ok(())
}

fn wrong(path: &Path, at: u64, why: String) -> BenchError {
    BenchError::Trace { path: PathBuf::from(path), at, why }
}

/// `start count 0 request`.
fn blocks(line: &str, builder: &mut Builder) -> Result<(), String> {
    let mut fields = line.split_ascii_whitespace().map(str::parse::<u64>);
    let (Some(Ok(start)), Some(Ok(count))) = (fields.next(), fields.next()) else {
        return Err("it does not begin with a start and a count".to_owned());
    };
    let end = start.checked_add(count).filter(|_| count <= MOST_BLOCKS_PER_LINE);
    let end = end.ok_or_else(|| format!("{count} blocks from {start} are too many"))?;
    (start..end).try_for_each(|block| builder.request(block))
}

fn read_oracle(
    mut source: impl Read,
    path: &Path,
    interrupt: &Interrupt,
    builder: &mut Builder,
) -> Result<(), BenchError> {
    for number in 1.. {
        if number % STRETCH as u64 == 0 {
            interrupt.check()?;
        }
        let mut record = [0; ORACLE_RECORD_BYTES];
        match fill(&mut source, &mut record).map_err(BenchError::file(path))? {
            0 => break,
            ORACLE_RECORD_BYTES => {}
            short => {
                return Err(wrong(path, number, format!("the record has {short} of 24 bytes")));
            }
        }
        let [_, _, _, _, id @ .., _, _, _, _, _, _, _, _] = record;
        let [a, b, c, d, e, f, g, h, size @ ..] = id;
        let id = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        builder
            .request_sized(id, u32::from_le_bytes(size))
            .map_err(|why| wrong(path, number, why))?;
    }
    Ok(())
}

/// Reads until the buffer is full or the source ends.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn written(name: &str, bytes: &[u8], format: Option<Format>) -> Result<Trace, BenchError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        read(&path, format, &Interrupt::silent())
    }

    fn why(name: &str, bytes: &[u8]) -> String {
        let error = written(name, bytes, None).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        error
    }

    #[test]
    fn every_block_of_a_line_is_a_request() {
        let trace = written("t.lis", b"7 3 0 0\n\n8 1 0 1\n", None).unwrap();
        assert_eq!((trace.requests, trace.pages), (vec![0, 1, 2, 1], 3));
    }

    #[test]
    fn ids_and_records_of_libcachesim() {
        let trace = written("t.txt", b"18446744073709551615\n5\n5\n", None).unwrap();
        assert_eq!((trace.requests, trace.bytes), (vec![0, 1, 1], vec![]));
        let record = |id: u64, size: u32| {
            let (time, next) = (9u32.to_le_bytes(), (-1i64).to_le_bytes());
            [&time[..], &id.to_le_bytes(), &size.to_le_bytes(), &next].concat()
        };
        let bytes = [record(1 << 40, 512), record(3, 70_000), record(1 << 40, 512)].concat();
        let trace = written("t.oracleGeneral", &bytes, None).unwrap();
        assert_eq!((trace.requests, trace.bytes), (vec![0, 1, 0], vec![512, 70_000]));
        let trace = written("named.otherwise", &bytes, Some(Format::Oracle)).unwrap();
        assert_eq!(trace.pages, 2);
        assert!(why("t.bin", &bytes[..30]).contains("record has 6 of 24"));
    }

    #[test]
    fn damage_is_an_error_that_names_the_line() {
        assert!(why("t.lis", b"7 3 0 0\nseven\n").contains(":2:"));
        assert!(why("t.lis", b"7\n").contains(":1:"));
        assert!(why("t.lis", b"18446744073709551615 2 0 0\n").contains("too many"));
        assert!(why("t.lis", b"0 99999999 0 0\n").contains("too many"));
        assert!(why("t.txt", b"1\n2\n-3\n").contains(":3:"));
        assert!(why("t.lis", b"\n").contains("no request"));
        assert!(why("t.lis", b"1 1 0 0\n\xFF\n").contains(":2: it is not text"));
        let nowhere = Path::new("/nowhere/t.lis");
        assert!(read(nowhere, None, &Interrupt::silent()).is_err());
    }

    #[test]
    fn what_was_guessed_is_said() {
        for (name, bytes) in [("t.csv", &b"1,2\n"[..]), ("t.lis.gz", b"\x1F\x8B\x08\0\xFF\n")] {
            let why = why(name, bytes);
            assert!(why.contains(":1: ") && why.contains("say --format lis or oracle"), "{why}");
        }
        assert!(!why("t.lis", b"seven\n").contains("--format"));
        let long = [b'x'; 1000];
        assert!(why("t.txt", &long).len() < 300);
        let said = written("t.csv", b"1,2\n", Some(Format::Ids)).unwrap_err().to_string();
        assert!(!said.contains("--format"), "{said}");
    }

    /// "7 3 0 0" and "8 1 0 1", packed by zstd 1.5.
    const PACKED: &[u8] = b"\x28\xb5\x2f\xfd\x00\x58\x81\x00\x007 3 0 0\n8 1 0 1\n";

    #[test]
    fn packed_files_are_unpacked_to_their_end() {
        let trace = written("t.lis.zst", PACKED, None).unwrap();
        assert_eq!(trace.requests, [0, 1, 2, 1]);
        let twice = [PACKED, PACKED].concat();
        let trace = written("t.lis.zst", &twice, None).unwrap();
        assert_eq!(trace.requests, [0, 1, 2, 1, 0, 1, 2, 1]);
        for bytes in [&PACKED[..20], &twice[..30], &[PACKED, b"rubbish"].concat(), b"rubbish"] {
            why("t.lis.zst", bytes);
        }
    }
}
