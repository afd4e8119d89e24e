//! The parts of the demo, one function each.

use std::fmt;
use std::ops::{Add, Bound};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use fastrand::Rng;
use polder::{Change, Store, Table};

use super::measure::{Measured, Part, joined};
use super::plan::Plan;
use super::records;
use crate::commands::Context;
use crate::failure::{Failure, note};
use crate::progress::{Progress, Unit};
use crate::units::{count, duration};

/// Records of one scan: several pages.
const SCAN_RECORDS: u64 = 100;
/// A bar is moved once in so many records.
const RECORDS_A_STEP: u64 = 1024;

/// What all parts share.
pub struct Work<'a> {
    context: &'a Context,
    plan: &'a Plan,
    store: &'a Store,
    table: &'a Table,
    /// Inserts begun; one that was begun is done by the end of its part.
    inserts: AtomicU64,
    /// Updates done.
    updates: AtomicU64,
}

impl<'a> Work<'a> {
    pub fn new(context: &'a Context, plan: &'a Plan, store: &'a Store, table: &'a Table) -> Self {
        let (inserts, updates) = (AtomicU64::new(0), AtomicU64::new(0));
        Work { context, plan, store, table, inserts, updates }
    }

    /// Records inserted so far.
    pub fn inserted(&self) -> u64 {
        self.inserts.load(Relaxed).min(self.plan.records)
    }

    /// Updates done so far.
    pub fn updates(&self) -> u64 {
        self.updates.load(Relaxed)
    }

    /// Sorted bulk load.
    pub fn load(&self) -> Result<(), Failure> {
        let label = format!("loading {} records in order", count(self.plan.records));
        step(&label, || {
            let progress = Progress::new(&label, Unit::Things("records"), Some(self.plan.records));
            let entries =
                (0..self.plan.records).take_while(|_| !self.context.stop.requested()).map(|i| {
                    if i.is_multiple_of(RECORDS_A_STEP) {
                        progress.at(i);
                    }
                    let number = records::loaded(i);
                    (records::key(number), records::value(number, 0))
                });
            self.table.bulk_load(entries)?;
            self.context.stop.check()
        })
    }

    /// Inserts between those records, here and there.
    pub fn insert_more(&self) -> Result<Measured, Failure> {
        self.measure("inserting records at random", self.plan.waiters, |random| self.insert(random))
    }

    /// Brings the hot records into memory.
    pub fn warm_up(&self) -> Result<(), Failure> {
        let label = "reading a part that fits in memory once";
        step(label, || {
            let from = self.plan.hot_from();
            let progress = Progress::new(label, Unit::Things("records"), Some(self.plan.hot));
            for i in 0..self.plan.hot {
                if i.is_multiple_of(RECORDS_A_STEP) {
                    self.context.stop.check()?;
                    progress.at(i);
                }
                self.look_up(from + i)?;
            }
            Ok(())
        })
    }

    /// Lookups where all is resident.
    pub fn look_up_hot(&self) -> Result<Measured, Failure> {
        let (from, hot) = (self.plan.hot_from(), self.plan.hot);
        self.measure("looking up in that part", self.plan.cores, |random| {
            self.look_up(from + random.u64(..hot))
        })
    }

    /// Lookups where most is not.
    pub fn look_up_all(&self) -> Result<Measured, Failure> {
        self.measure("looking up in all of the data", self.plan.waiters, |random| {
            self.look_up(random.u64(..self.plan.records))
        })
    }

    /// Changes records and adds new ones, by turns.
    pub fn update_and_insert(&self) -> Result<Measured, Failure> {
        self.measure("updating and inserting all over the data", self.plan.waiters, |random| {
            if random.u64(..2) == 0 { self.update(random) } else { self.insert(random) }
        })
    }

    /// Short scans from anywhere.
    pub fn scan(&self) -> Result<Measured, Failure> {
        self.measure("scanning ranges all over the data", self.plan.waiters, |random| {
            let from = random.u64(..self.plan.records);
            let to = (from + SCAN_RECORDS).min(self.plan.records);
            let seen = walk(self.table, from, to)?;
            Ok(seen.loaded + seen.inserted)
        })
    }

    fn measure(
        &self,
        label: &str,
        threads: usize,
        once: impl Fn(&mut Rng) -> Result<u64, Failure> + Sync,
    ) -> Result<Measured, Failure> {
        let part = Part { label, threads, time: self.plan.part, stop: &self.context.stop };
        step(label, || part.run(self.store, once))
    }

    fn look_up(&self, i: u64) -> Result<u64, Failure> {
        let number = records::loaded(i);
        match self.table.get_with(records::key(number), |value| records::verify(number, value))? {
            Some(verdict) => verdict.map(|_| 1),
            None => Err(Failure::Damaged(format!("record {number} is missing"))),
        }
    }

    fn insert(&self, random: &mut Rng) -> Result<u64, Failure> {
        let i = self.inserts.fetch_add(1, Relaxed);
        if i >= self.plan.records {
            // All gaps are full.
            return self.update(random);
        }
        let number = records::inserted(i, self.plan.records);
        if self.table.put(records::key(number), records::value(number, 0))? {
            Ok(1)
        } else {
            Err(Failure::Damaged(format!("record {number} was there before it was inserted")))
        }
    }

    fn update(&self, random: &mut Rng) -> Result<u64, Failure> {
        let number = records::loaded(random.u64(..self.plan.records));
        let mut verdict = Ok(());
        self.table.update_with(records::key(number), |value| {
            let updates = value.map_or_else(
                || Err(Failure::Damaged(format!("record {number} is missing"))),
                |value| records::verify(number, value),
            );
            match updates {
                Ok(updates) => {
                    verdict = Ok(());
                    Change::Insert(records::value(number, updates + 1).to_vec())
                }
                Err(failure) => {
                    verdict = Err(failure);
                    Change::Keep
                }
            }
        })?;
        verdict?;
        self.updates.fetch_add(1, Relaxed);
        Ok(1)
    }
}

/// What a walk over neighbouring records found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Seen {
    loaded: u64,
    inserted: u64,
    updates: u64,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [loaded, inserted, updates] = [self.loaded, self.inserted, self.updates].map(count);
        write!(f, "{loaded} loaded and {inserted} inserted records with {updates} updates")
    }
}

impl Add for Seen {
    type Output = Seen;

    fn add(self, other: Seen) -> Seen {
        Seen {
            loaded: self.loaded + other.loaded,
            inserted: self.inserted + other.inserted,
            updates: self.updates + other.updates,
        }
    }
}

/// Reads and checks everything from the loaded record `from` to before `to`: none of those may be
/// missing, and what lies between them must be a record that was inserted.
fn walk(table: &Table, from: u64, to: u64) -> Result<Seen, Failure> {
    let key = |i| records::key(records::loaded(i));
    let mut range = table.range((Bound::Included(key(from)), Bound::Excluded(key(to))));
    let mut seen = Seen::default();
    let mut last = None;
    while let Some((key, value)) = range.next_entry()? {
        let number = records::number(key)?;
        seen.updates += records::verify(number, value)?;
        if last.is_some_and(|last| last >= number) {
            return Err(Failure::Damaged(format!("record {number} is out of order")));
        }
        last = Some(number);
        if number == records::loaded(from + seen.loaded) {
            seen.loaded += 1;
        } else {
            seen.inserted += 1;
        }
    }
    // An odd number is an inserted one; an even one out of turn left its predecessor missing.
    if seen.loaded == to - from {
        Ok(seen)
    } else {
        let number = records::loaded(from + seen.loaded);
        Err(Failure::Damaged(format!("record {number} is missing")))
    }
}

/// Reads everything, and compares with what was done.
pub fn recount(
    context: &Context,
    plan: &Plan,
    table: &Table,
    inserted: u64,
    updates: u64,
) -> Result<(), Failure> {
    let label = "reading all of it after closing and opening";
    let expected = Seen { loaded: plan.records, inserted, updates };
    let found = step(label, || {
        let progress = Progress::new(label, Unit::Things("records"), Some(plan.records));
        let done = AtomicU64::new(0);
        let walker = |part: u64| {
            let bound = |part: u64| plan.records * part / plan.waiters as u64;
            let (mut at, end) = (bound(part), bound(part + 1));
            let mut sum = Seen::default();
            while at < end {
                context.stop.check()?;
                let to = end.min(at + RECORDS_A_STEP);
                sum = sum + walk(table, at, to)?;
                progress.at(done.fetch_add(to - at, Relaxed));
                at = to;
            }
            Ok::<Seen, Failure>(sum)
        };
        thread::scope(|scope| {
            let walker = &walker;
            let start = |part| {
                let started = thread::Builder::new().spawn_scoped(scope, move || walker(part));
                started.map_err(Failure::io("cannot start a thread"))
            };
            let threads: Vec<_> = (0..plan.waiters as u64).map(start).collect();
            threads.into_iter().map(|thread| joined(thread?.join())).collect::<Result<Vec<_>, _>>()
        })
    })?;
    let found = found.into_iter().fold(Seen::default(), Add::add);
    if found == expected && table.len() == plan.records + inserted {
        Ok(())
    } else {
        Err(Failure::Damaged(format!("after opening again there are {found}, not {expected}")))
    }
}

/// Does a step and says on standard error how long it took.
fn step<T>(label: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let begun = Instant::now();
    let outcome = work();
    if outcome.is_ok() {
        note(&format!("{label:<50} {:>8}", duration(begun.elapsed())));
    }
    outcome
}
