//! Traces in files: the formats, and which of them a file has.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use ruzstd::decoding::StreamingDecoder;
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

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
const SECTOR_BYTES: u128 = 512;
const SPC_PAGE_BYTES: u128 = 4096;

impl Format {
    /// What the name says.
    pub(super) fn of(path: &Path) -> Option<Format> {
        let unpacked = if is_packed(path) { &path.with_extension("") } else { path };
        match unpacked.extension()?.to_str()? {
            "lis" => Some(Format::Lis),
            "bin" | "oracleGeneral" => Some(Format::Oracle),
            "spc" => Some(Format::Spc),
            _ => None,
        }
    }
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// What cannot be read: the line or record, from 1, and why.
type Damage = (u64, String);

/// Reads all of it, in the format that was said or that its name says, else as ids.
pub(super) fn read(path: &Path, said: Option<Format>) -> Result<Trace, BenchError> {
    let format = said.or_else(|| Format::of(path));
    let file = File::open(path).map_err(BenchError::file(path))?;
    let source: Box<dyn BufRead> = match is_packed(path) {
        true => Box::new(Cursor::new(unpacked(file).map_err(BenchError::file(path))?)),
        false => Box::new(BufReader::new(file)),
    };
    let mut builder = Builder::default();
    let read = match format {
        Some(Format::Oracle) => read_oracle(source, &mut builder),
        Some(Format::Lis) => read_lines(source, |line| blocks(line, &mut builder)),
        Some(Format::Spc) => read_lines(source, |line| spc(line, &mut builder)),
        Some(Format::Ids) | None => read_lines(source, |line| id(line, &mut builder)),
    };
    let read = match builder.trace.requests.is_empty() {
        true => read.and(Err((1, "there is no request".to_owned()))),
        false => read,
    };
    read.map_err(|(at, mut why)| {
        if format.is_none() {
            why += " (read as ids: say --format lis, oracle or spc, or unpack it)";
        }
        BenchError::Trace { path: path.to_owned(), at, why }
    })?;
    Ok(builder.finish())
}

/// What a zstd file unpacks to, also where it has several frames.
fn unpacked(mut packed: impl Read) -> io::Result<Vec<u8>> {
    let (mut all, mut unpacked) = (Vec::new(), Vec::new());
    packed.read_to_end(&mut all)?;
    let mut rest = &all[..];
    while !rest.is_empty() {
        let mut frame = StreamingDecoder::new(&mut rest).map_err(io::Error::other)?;
        frame.read_to_end(&mut unpacked)?;
    }
    Ok(unpacked)
}

fn read_lines(
    source: impl BufRead,
    mut take: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), Damage> {
    for (number, line) in (1..).zip(source.lines()) {
        let line = line.map_err(|error| (number, format!("it is not text: {error}")))?;
        if !line.trim().is_empty() {
            take(line.trim()).map_err(|why| (number, why))?;
        }
    }
    Ok(())
}

/// `start count 0 request`.
fn blocks(line: &str, builder: &mut Builder) -> Result<(), String> {
    let mut fields = line.split_ascii_whitespace().map(str::parse::<u64>);
    let (Some(Ok(start)), Some(Ok(count))) = (fields.next(), fields.next()) else {
        return Err("it does not begin with a start and a count".to_owned());
    };
    let end = start.checked_add(count).filter(|_| count <= MOST_BLOCKS_PER_LINE);
    let end = end.ok_or_else(|| format!("{count} blocks from {start} are too many"))?;
    (start..end).try_for_each(|block| builder.request(block.into(), false).map(drop))
}

/// `id`, or `id,write`.
fn id(line: &str, builder: &mut Builder) -> Result<(), String> {
    if line == IDS_HEADING && builder.trace.requests.is_empty() {
        return Ok(());
    }
    let (id, write) = line.split_once(',').unwrap_or((line, "0"));
    let id: u64 = id.trim().parse().map_err(|_| format!("{} is no id", quoted(id)))?;
    let is_write = match write.trim() {
        "0" => false,
        "1" => true,
        other => return Err(format!("{} is neither 0 (a read) nor 1 (a write)", quoted(other))),
    };
    builder.request(id.into(), is_write).map(drop)
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
    let begin = u128::from(sector) * SECTOR_BYTES;
    let end = begin + u128::from(bytes);
    let mut pages = begin / SPC_PAGE_BYTES..end.div_ceil(SPC_PAGE_BYTES);
    if pages.end - pages.start > MOST_BLOCKS_PER_LINE.into() {
        return Err(format!("{bytes} bytes from sector {sector} of unit {unit} are too many"));
    }
    // Units are disks of their own, each with its own page numbers.
    let base = u128::from(unit) << 64;
    pages.try_for_each(|page| builder.request(base | page, is_write).map(drop))
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

fn read_oracle(mut source: impl Read, builder: &mut Builder) -> Result<(), Damage> {
    let mut record = Vec::new();
    for number in 1.. {
        record.clear();
        let mut next = source.by_ref().take(size_of::<OracleRecord>() as u64);
        next.read_to_end(&mut record).map_err(|error| (number, error.to_string()))?;
        if record.is_empty() {
            break;
        }
        let Ok(OracleRecord { id, bytes, .. }) = OracleRecord::read_from_bytes(&record) else {
            return Err((number, format!("the record has {} of 24 bytes", record.len())));
        };
        if builder.request(id.get().into(), false).map_err(|why| (number, why))? {
            builder.trace.bytes.push(bytes.get());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
