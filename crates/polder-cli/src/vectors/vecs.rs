//! Rows that each begin with how many numbers they have.

use std::io::BufRead;

use super::{Bad, Format, MOST_NUMBERS, Number, fill};

/// What the file holds, and how many rows if all are as long as the first.
pub fn begin(
    number: Number,
    bytes: u64,
    file: &mut impl BufRead,
) -> Result<(Format, Option<u64>), Bad> {
    let first = file.fill_buf()?.first_chunk::<4>();
    let row = first.map(|first| 4 + u64::from(u32::from_le_bytes(*first)) * number.bytes() as u64);
    let count = row.filter(|row| bytes.is_multiple_of(*row)).map(|row| bytes / row);
    Ok((Format::Vecs(number), count))
}

pub fn row(number: Number, file: &mut impl BufRead) -> Result<Vec<f32>, Bad> {
    let count = u32::from_le_bytes(fill(file)?) as usize;
    if !(1..=MOST_NUMBERS).contains(&count) {
        return Err(Bad::Row(format!("it is to have {count} numbers: this is no such file")));
    }
    number.read(count, file)
}
