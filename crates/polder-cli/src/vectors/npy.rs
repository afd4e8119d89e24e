//! NumPy's files of one array, versions 1 to 3 of the format
//! (<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).

use std::io::Read;

use super::{Bad, Format, MOST_NUMBERS, Number, fill};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Bytes of the text that says what the array is, at most.
const MOST_HEAD: usize = 1 << 16;

/// What the file holds, and how many rows.
pub fn begin(file: &mut impl Read) -> Result<(Format, Option<u64>), Bad> {
    let bad = |why: &str| Bad::Row(why.to_owned());
    let magic: [u8; 6] = fill(file)?;
    let [version, _] = fill(file)?;
    if magic != *MAGIC || !(1..=3).contains(&version) {
        return Err(bad("it is no array of NumPy, of version 1 to 3 of its format"));
    }
    let length = match version {
        1 => u16::from_le_bytes(fill(file)?).into(),
        _ => u32::from_le_bytes(fill(file)?) as usize,
    };
    if length > MOST_HEAD {
        return Err(bad("the array's description is longer than any is"));
    }
    let mut head = vec![0; length];
    file.read_exact(&mut head)?;
    let head = String::from_utf8_lossy(&head);
    let value = |key: &str| {
        let (_, behind) = head.split_once(&format!("'{key}'"))?;
        Some(behind.trim_start().strip_prefix(':')?.trim_start())
    };
    let quoted = value("descr").and_then(|value| value.split('\'').nth(1));
    let number = match quoted {
        Some("<f4") => Number::F4,
        Some("<f2") => Number::F2,
        Some("<i4") => Number::I4,
        Some("|i1") => Number::I1,
        Some("|u1") => Number::U1,
        other => {
            let other = other.unwrap_or("something else");
            let why = format!("the array is of {other}: it must be of <f4, <f2, <i4, |i1 or |u1");
            return Err(Bad::Row(why));
        }
    };
    if value("fortran_order").is_none_or(|value| !value.starts_with("False")) {
        return Err(bad("the array lies column by column: save it in C order"));
    }
    let shape = value("shape").and_then(|value| value.strip_prefix('(')?.split(')').next());
    let sizes = shape.map(|shape| {
        let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
        sizes.map(|size| size.parse::<u64>().ok()).collect::<Vec<_>>()
    });
    match sizes.as_deref() {
        Some([Some(rows), Some(columns)]) if (1..=MOST_NUMBERS as u64).contains(columns) => {
            Ok((Format::Npy { number, columns: *columns as usize }, Some(*rows)))
        }
        _ => Err(bad(
            "the array must have two dimensions, of which the second are the numbers of a row",
        )),
    }
}
