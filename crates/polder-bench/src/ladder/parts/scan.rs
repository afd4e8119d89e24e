//! Scans of pages that are all resident: in the order of their numbers, and in a random one
//! (calico-2026 3.1, table 2).
//!
//! Timed is: go to the page by its number, add up one column of its rows, validate. An attempt goes
//! on for [`PAGES_A_TURN`] pages, each validated by itself, so that beginning and ending an attempt
//! is not what is measured. Nothing is allocated and the order is a list made beforehand. Whole
//! scans go before, until pages lie where they prefer.

use polder_format::{PageNo, PageSize};
use rand::seq::SliceRandom;

use crate::ladder::pages::{self, CONTENT_AT};
use crate::ladder::prelude::*;

const PAGE_BYTES: u32 = 8192;
const ROW_BYTES: usize = 1024;
/// The headers leave room for one row less than a page without them.
const ROWS_A_PAGE: usize = (PAGE_BYTES as usize - ROWS_AT) / ROW_BYTES;
/// How many rows a page has: scans read it.
const COUNT_AT: usize = CONTENT_AT;
const ROWS_AT: usize = CONTENT_AT + 8;
const COLUMN_AT: usize = 8;
const PAGES_A_TURN: usize = 32;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    (setup.tell)("making pages");
    let count = (setup.scale.scan_bytes / u64::from(PAGE_BYTES)).max(PAGES_A_TURN as u64);
    let size = PageSize::new(PAGE_BYTES).map_err(|e| BenchError::Options(e.to_string()))?;
    let pool = setup.resident_pool::<T>(size, count, &[pages::KIND])?;
    let space = pool.create_space()?;
    let in_order = pages::make(&space, count, |index, page| {
        page.set_u64(COUNT_AT, ROWS_A_PAGE as u64);
        (0..ROWS_A_PAGE).for_each(|row| page.set_u64(column(row), index));
    })?;
    let expected = count * (count - 1) / 2 * ROWS_A_PAGE as u64;
    let mut measured = Measured::default();
    // Each row has a line for itself; the count lies in that of the first.
    measured.push_touched(count * ROWS_A_PAGE as u64);
    for (metric, order) in [("sequential", in_order.clone()), ("random", shuffled(in_order, setup))]
    {
        setup.interrupt.check()?;
        (setup.tell)(metric);
        settle(&pool, || {
            setup.interrupt.check()?;
            let mut sum = 0u64;
            for turn in order.chunks(PAGES_A_TURN) {
                sum = sum.wrapping_add(sum_of(&space, turn)?);
            }
            if sum == expected {
                Ok(())
            } else {
                Err(BenchError::WrongSum { found: sum, expected })
            }
        })?;
        let driven = setup.drive(1, |_| {
            let (space, mut turns) = (&space, order.chunks(PAGES_A_TURN).cycle());
            move || {
                let turn = turns.next().unwrap_or_default();
                std::hint::black_box(sum_of(space, turn)?);
                Ok(turn.len() as u64)
            }
        })?;
        measured.push_driven(metric, 0.0, &driven);
    }
    Ok(measured)
}

const fn column(row: usize) -> usize {
    ROWS_AT + row * ROW_BYTES + COLUMN_AT
}

/// The column's sum over these pages.
#[inline]
fn sum_of<T: Translation>(space: &Space<T>, numbers: &[PageNo]) -> Result<u64, BenchError> {
    Ok(space.run(AccessHint::Scan, |attempt| {
        let mut sum = 0u64;
        for number in numbers {
            let guard = space.page(attempt, *number)?;
            let page = guard.page();
            let rows = (page.u64(COUNT_AT) as usize).min(ROWS_A_PAGE);
            let of_page = (0..rows)
                .map(|row| page.u64(column(row)))
                .fold(0u64, |sum, word| sum.wrapping_add(word));
            guard.validate()?;
            sum = sum.wrapping_add(of_page);
        }
        Ok(sum)
    })?)
}

fn shuffled(mut numbers: Vec<PageNo>, setup: &Setup<'_>) -> Vec<PageNo> {
    numbers.shuffle(&mut setup.streams.next());
    numbers
}
