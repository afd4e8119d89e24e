//! A large and a small table that two threads scan all the time, in one pool (leanstore-2018 VI-C,
//! figure 12).
//!
//! The tables are trees of 10 and 0.7 *parts*; the axis is the budget in parts. Cursors go through
//! them as through any table: from some leaves on as scans, which ask for leaves ahead where some
//! are missing. For each budget a pool is opened, and the large table is scanned once unmeasured.
//! Measured are whole scans of the large table, at least one, for at least as long as a measurement
//! takes, and what the other thread scans of the small one meanwhile.

use polder_tree::Cursor;

use crate::ladder::prelude::*;
use crate::team::Team;

/// What a table has: its metric, and its size in parts.
const TABLES: [(&str, f64); 2] = [("large table", 10.0), ("small table", 0.7)];
/// Of the two.
const LARGE: usize = 0;
/// Budgets in parts.
const BUDGETS: [f64; 6] = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0];
/// Parts of the bytes that a scan of resident pages goes through. The large table is a fifth of
/// them, since it is scanned so often.
const PARTS: u64 = 50;
/// Entries between two looks at the clock.
const TURN: u64 = 1024;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let part_bytes = setup.scale.scan_bytes / PARTS;
    let records = TABLES.map(|(_, parts)| records_of((parts * part_bytes as f64) as u64));
    let stored = Stored::find(setup, &records)?;
    let mut measured = Measured::default();
    for budget in BUDGETS {
        (setup.tell)(&format!("a budget of {budget} parts"));
        let Subject { tree: large, pool, .. } =
            stored.open::<T>(setup, (budget * part_bytes as f64) as u64)?;
        let trees = [large, stored.tree(&pool, 1)?];
        scan(setup, &trees, &records, 0.0)?;
        let before = pool.stats().device_reads;
        let (driven, bytes) = scan(setup, &trees, &records, setup.seconds)?;
        let read = pool.stats().device_reads - before;
        let seconds = driven.seconds.max(1e-9);
        for ((metric, _), bytes) in TABLES.iter().zip(bytes) {
            measured.push(*metric, budget, bytes as f64 / seconds);
        }
        measured.push("pages read", budget, read as f64 / seconds);
    }
    Ok(measured)
}

/// Whole scans of the large table, at least one, for so many seconds at least, while the other
/// thread scans the small one. Gives how many bytes of records each has scanned.
fn scan<T: Translation>(
    setup: &Setup<'_>,
    trees: &[Tree<T>; 2],
    records: &[u64; 2],
    seconds: f64,
) -> Result<(Driven, [u64; 2]), BenchError> {
    let bytes = [const { AtomicU64::new(0) }; 2];
    let driven = drive(Team { limit: None, ..setup.team(trees.len()) }, |table| {
        let mut scans = Scans::new(&trees[table], records[table]);
        let (bytes, mut began) = (&bytes[table], None);
        move || {
            let began = *began.get_or_insert_with(Instant::now);
            // It ends when the large table was scanned to its end.
            if table == LARGE && scans.are_whole() && began.elapsed().as_secs_f64() >= seconds {
                return Ok(0);
            }
            let scanned = scans.turn()?;
            bytes.fetch_add(scanned, Relaxed);
            // A turn of nothing would end it.
            Ok(scanned.max(1))
        }
    })?;
    Ok((driven, bytes.map(AtomicU64::into_inner)))
}

/// Scans of one table, one after the other.
struct Scans<'a, T: Translation> {
    tree: &'a Tree<T>,
    records: u64,
    /// Of the scan under way, with the entries that it has come by.
    cursor: Option<(Cursor<T>, u64)>,
    ended: u64,
}

impl<'a, T: Translation> Scans<'a, T> {
    fn new(tree: &'a Tree<T>, records: u64) -> Scans<'a, T> {
        Scans { tree, records, cursor: None, ended: 0 }
    }

    /// Whether there was a scan, and none is under way.
    fn are_whole(&self) -> bool {
        self.ended > 0 && self.cursor.is_none()
    }

    /// Goes by some entries, at most to the end of a scan, which must have come by all. Gives their
    /// bytes.
    fn turn(&mut self) -> Result<u64, BenchError> {
        let (mut cursor, mut seen) = match self.cursor.take() {
            Some(under_way) => under_way,
            None => (self.tree.cursor_first()?, 0),
        };
        let mut bytes = 0;
        for _ in 0..TURN {
            let Some((key, value)) = cursor.next()? else {
                self.ended += 1;
                return match seen == self.records {
                    true => Ok(bytes),
                    false => Err(BenchError::WrongSum { found: seen, expected: self.records }),
                };
            };
            bytes += (key.len() + value.len()) as u64;
            seen += 1;
        }
        self.cursor = Some((cursor, seen));
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use polder_pool::Array;

    use super::*;
    use crate::ladder::setup::testing::run;

    #[test]
    fn the_large_table_is_scanned_to_its_end() {
        run(|setup| {
            let records = [30_000, 2_000];
            let stored = Stored::find(setup, &records).unwrap();
            let Subject { tree: large, pool, .. } =
                stored.open::<Array>(setup, stored.bytes / 4).unwrap();
            let trees = [large, stored.tree(&pool, 1).unwrap()];
            let of_record = 128;
            let (driven, bytes) = scan(setup, &trees, &records, 0.0).unwrap();
            assert_eq!(bytes[LARGE], records[LARGE] * of_record);
            assert!(bytes[1] > 0 && driven.ops >= bytes[LARGE]);
            let (driven, bytes) = scan(setup, &trees, &records, 0.05).unwrap();
            assert!(
                driven.seconds >= 0.05 && bytes[LARGE].is_multiple_of(records[LARGE] * of_record)
            );
            let wrong = scan(setup, &trees, &[30_001, 2_000], 0.0);
            assert!(matches!(wrong, Err(BenchError::WrongSum { found: 30_000, .. })));
        });
    }

    #[test]
    fn what_fits_is_read_once() {
        run(|setup| {
            let records = [30_000, 2_000];
            let stored = Stored::find(setup, &records).unwrap();
            let Subject { tree: large, pool, .. } =
                stored.open::<Array>(setup, 2 * stored.bytes).unwrap();
            let trees = [large, stored.tree(&pool, 1).unwrap()];
            scan(setup, &trees, &records, 0.0).unwrap();
            let before = pool.stats().device_reads;
            scan(setup, &trees, &records, 0.0).unwrap();
            assert_eq!(pool.stats().device_reads, before);
        });
    }
}
