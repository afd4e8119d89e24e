//! Traces in files: the formats, and which of them a file has.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::packed::Unpacked;
use super::trace::{Builder, Trace};
use crate::error::{BenchError, quoted};

/// How requests stand in a file. Each may be compressed with zstd, if its name ends so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Lines `start count 0 request`, of the ARC paper (N. Megiddo and D. Modha, "ARC: A
    /// Self-Tuning, Low Overhead Replacement Cache", FAST 2003): a request for each block.
    Lis,
    /// libCacheSim's oracleGeneral: 24 bytes packed, u32 time, u64 id, u32 size, i64 next.
    Oracle,
    /// UMass traces of storage, by the format of the Storage Performance Council: lines
    /// `unit,sector,bytes,R or W,seconds`, with sectors of 512 bytes. A request for each 4 KiB
    /// that it touches.
    Spc,
    /// A decimal id on each line, and behind a comma whether the request changes its page: 0 or 1.
    /// So are the traces of WATT (PVLDB 2023), whose first line names the two.
    Ids,
}

/// What a line may ask for at once; more is a damaged file.
const MOST_BLOCKS_PER_LINE: u64 = 1 << 20;
/// The first line of the traces of WATT.
const IDS_HEADING: &str = "pages,is_write";
const SECTOR_BYTES: u64 = 512;
const SPC_PAGE_BYTES: u64 = 4096;
/// A unit has fewer bytes than these. More than any disk.
const UNIT_BYTES: u64 = 1 << 52;
/// There are fewer units than these, so that every page of every unit has a number.
const UNITS: u64 = 1 << 20;

impl Format {
    /// What the name says.
    fn of(path: &Path) -> Option<Format> {
        let unpacked = if is_packed(path) { &path.with_extension("") } else { path };
        match unpacked.extension()?.to_str()? {
            "lis" => Some(Format::Lis),
            "bin" | "oracleGeneral" => Some(Format::Oracle),
            "spc" => Some(Format::Spc),
            _ => None,
        }
    }

    /// Whether the objects of a file know their sizes.
    pub(super) fn has_sizes(said: Option<Format>, path: &Path) -> bool {
        said.or_else(|| Format::of(path)) == Some(Format::Oracle)
    }
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// Reads all of it, in the format that was said or that its name says, else as ids.
pub(super) fn read(path: &Path, said: Option<Format>) -> Result<Trace, BenchError> {
    let format = said.or_else(|| Format::of(path));
    let file = BufReader::new(File::open(path).map_err(BenchError::file(path))?);
    let source: Box<dyn BufRead> = if is_packed(path) {
        let unpacked = Unpacked::new(file).map_err(BenchError::file(path))?;
        Box::new(BufReader::with_capacity(1 << 16, unpacked))
    } else {
        Box::new(file)
    };
    let mut builder = Builder::default();
    let read = match format {
        Some(Format::Oracle) => read_oracle(source, path, &mut builder),
        Some(Format::Lis) => read_lines(source, path, |line| blocks(line, &mut builder)),
        Some(Format::Spc) => read_lines(source, path, |line| spc(line, &mut builder)),
        Some(Format::Ids) | None => read_lines(source, path, |line| id(line, &mut builder)),
    };
    read.map_err(|error| match (format, error) {
        (None, BenchError::Trace { path, at, why }) => {
            let why = format!("{why} (read as ids: say --format lis, oracle or spc, or unpack it)");
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
    mut take: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), BenchError> {
    for (number, line) in (1..).zip(source.lines()) {
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
    (start..end).try_for_each(|block| builder.request(block, false))
}

/// `id`, or `id,write`.
fn id(line: &str, builder: &mut Builder) -> Result<(), String> {
    if line == IDS_HEADING && builder.is_empty() {
        return Ok(());
    }
    let (id, write) = line.split_once(',').unwrap_or((line, "0"));
    let id = id.trim().parse().map_err(|_| format!("{} is no id", quoted(id)))?;
    let is_write = match write.trim() {
        "0" => false,
        "1" => true,
        other => return Err(format!("{} is neither 0 (a read) nor 1 (a write)", quoted(other))),
    };
    builder.request(id, is_write)
}

/// `unit,sector,bytes,R or W,seconds`.
fn spc(line: &str, builder: &mut Builder) -> Result<(), String> {
    let mut fields = line.split(',').map(str::trim);
    let mut number = || fields.next().and_then(|field| field.parse::<u64>().ok());
    let (Some(unit), Some(sector), Some(bytes)) = (number(), number(), number()) else {
        return Err("it does not begin with a unit, a sector and a number of bytes".to_owned());
    };
    let is_write = match fields.next() {
        Some("R" | "r") => false,
        Some("W" | "w") => true,
        _ => return Err("its fourth field is neither R nor W".to_owned()),
    };
    let begin = sector.checked_mul(SECTOR_BYTES).filter(|begin| *begin < UNIT_BYTES);
    let end = begin.and_then(|begin| begin.checked_add(bytes));
    let end = end.filter(|_| unit < UNITS && bytes <= MOST_BLOCKS_PER_LINE * SPC_PAGE_BYTES);
    let (Some(begin), Some(end)) = (begin, end) else {
        return Err(format!("{bytes} bytes from sector {sector} of unit {unit} are too many"));
    };
    // Units are disks of their own, each with its own page numbers.
    let base = unit * (UNIT_BYTES / SPC_PAGE_BYTES);
    let pages = begin / SPC_PAGE_BYTES..end.div_ceil(SPC_PAGE_BYTES);
    pages.into_iter().try_for_each(|page| builder.request(base + page, is_write))
}

/// A record of libCacheSim's oracleGeneral.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OracleRecord {
    _time: U32,
    id: U64,
    bytes: U32,
    _next: I64,
}

fn read_oracle(
    mut source: impl Read,
    path: &Path,
    builder: &mut Builder,
) -> Result<(), BenchError> {
    let mut record = Vec::new();
    for number in 1.. {
        record.clear();
        let mut next = source.by_ref().take(size_of::<OracleRecord>() as u64);
        next.read_to_end(&mut record).map_err(BenchError::file(path))?;
        if record.is_empty() {
            break;
        }
        let Ok(OracleRecord { id, bytes, .. }) = OracleRecord::read_from_bytes(&record) else {
            let why = format!("the record has {} of 24 bytes", record.len());
            return Err(wrong(path, number, why));
        };
        let taken = builder.request_sized(id.get(), bytes.get());
        taken.map_err(|why| wrong(path, number, why))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
