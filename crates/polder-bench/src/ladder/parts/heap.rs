//! Scans of heaps with rows of different lengths (calico-2026 6.4, figure 9a).
//!
//! Timed are whole scans by [`Heap::scan`]: each page is copied and validated, then its rows are
//! shown, and one column is added up.

use std::ops::ControlFlow;

use polder_format::PageSize;
use polder_tree::Heap;

use crate::ladder::prelude::*;

const PAGE_BYTES: u32 = 8192;
/// What a heap page keeps for itself, and beside each row.
const HEADER_BYTES: usize = 40;
const SLOT_BYTES: usize = 4;
/// Bytes of a row: those of the paper.
const ROW_BYTES: [usize; 7] = [128, 256, 512, 1024, 2048, 4096, 6144];
const COLUMN_AT: usize = 8;
/// What the column holds.
const COLUMN: u64 = 3;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let mut measured = Measured::default();
    for row_bytes in ROW_BYTES {
        setup.interrupt.check()?;
        (setup.tell)(&format!("rows of {row_bytes} bytes"));
        let rows = (setup.scale.heap_bytes / row_bytes as u64).max(1);
        let (_pool, heap) = filled::<T>(setup, rows, row_bytes)?;
        sum_of(&heap, rows)?;
        let driven = setup.drive(1, |_| {
            let heap = &heap;
            move || {
                sum_of(heap, rows)?;
                Ok(rows * row_bytes as u64)
            }
        })?;
        measured.push_driven("rows", row_bytes as f64, &driven);
    }
    Ok(measured)
}

fn filled<T: Translation>(
    setup: &Setup<'_>,
    rows: u64,
    row_bytes: usize,
) -> Result<(Pool<T>, Heap<T>), BenchError> {
    let size = PageSize::new(PAGE_BYTES).map_err(|e| BenchError::Options(e.to_string()))?;
    let rows_a_page = (PAGE_BYTES as usize - HEADER_BYTES) / (row_bytes + SLOT_BYTES);
    let pool = setup.resident_pool::<T>(size, rows.div_ceil(rows_a_page as u64), &KINDS)?;
    let heap = Heap::create(pool.create_space()?)?;
    let mut row = vec![0; row_bytes];
    row[COLUMN_AT..COLUMN_AT + 8].copy_from_slice(&COLUMN.to_le_bytes());
    heap.bulk_load((0..rows).map(|_| &row))?;
    Ok((pool, heap))
}

/// Adds up the column, which must give what was stored.
fn sum_of<T: Translation>(heap: &Heap<T>, rows: u64) -> Result<(), BenchError> {
    let mut sum = 0;
    let _ = heap.scan(AccessHint::Scan, |_, row| {
        let column = row.get(COLUMN_AT..).and_then(|rest| rest.first_chunk());
        sum += column.map_or(0, |word| u64::from_le_bytes(*word));
        ControlFlow::<()>::Continue(())
    })?;
    let expected = rows * COLUMN;
    if sum == expected { Ok(()) } else { Err(BenchError::WrongSum { found: sum, expected }) }
}

#[cfg(test)]
mod tests {
    use polder_pool::Array;

    use super::*;
    use crate::ladder::setup::testing::{assert_half_full, run};

    #[test]
    fn heaps_fill_half_of_their_pool() {
        run(|setup| {
            for row_bytes in ROW_BYTES {
                let rows = 8_000_000 / row_bytes as u64;
                let (pool, _heap) = filled::<Array>(setup, rows, row_bytes).unwrap();
                assert_half_full(&pool, &format!("rows of {row_bytes} bytes"));
            }
        });
    }
}
