//! One thread that does a mix of operations.

use std::hint::black_box;

use crate::bench::Mix;
use crate::dist::{Chooser, Dist};
use crate::engine::{EngineError, Session};
use crate::error::BenchError;
use crate::meter::Meter;
use crate::random::{Random, RngExt, stream};
use crate::records::{self, Key};
use crate::space::RecordSpace;

use super::Phase;
use super::reader::{READS_PER_CHECK, ScanReader, check_value, wrong_value};

/// One thread that mixes operations.
pub(super) struct Client<'a, 'b> {
    phase: &'a Phase<'b>,
    thread: usize,
    session: &'a mut dyn Session,
    mix: Mix,
    random: Random,
    chooser: Chooser,
    space: &'a RecordSpace,
    records: u64,
    /// Operations of one kind that are collected and then made by one call.
    many: usize,
    /// What was read.
    read: Vec<u8>,
    until_check: u64,
    /// Collected lookups.
    wanted: Vec<Key>,
    /// Collected writes, in the first `changed` places.
    changes: Vec<(Key, Vec<u8>)>,
    changed: usize,
    /// Collected scans: where each begins, and how many entries it has.
    scans: Vec<(Key, u64)>,
}

impl<'a, 'b> Client<'a, 'b> {
    /// For a phase that begins with so many records.
    pub(super) fn new(
        phase: &'a Phase<'b>,
        thread: usize,
        session: &'a mut dyn Session,
        mix: Mix,
        dist: Dist,
        space: &'a RecordSpace,
        records: u64,
    ) -> Client<'a, 'b> {
        let (plan, many) = (phase.plan, phase.named.many());
        // Batches are for commits, which are not made by many at once.
        let changes = if mix.update > 0 { many.max(plan.conditions.batch as usize) } else { 1 };
        Client {
            phase,
            thread,
            session,
            mix,
            random: stream(plan.seed, (phase.number << 16) | thread as u64),
            chooser: Chooser::new(dist, plan.conditions.theta, records),
            space,
            records,
            many,
            read: Vec::with_capacity(phase.value_size()),
            until_check: 1,
            wanted: Vec::with_capacity(many),
            changes: vec![(Key::default(), vec![0; phase.value_size()]); changes],
            changed: 0,
            scans: Vec::new(),
        }
    }

    /// Does one operation of the mix.
    #[inline]
    pub(super) fn operate(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let Mix { read, update, insert, scan, .. } = self.mix;
        match self.random.random_range(..100u64) {
            roll if roll < read => self.read(meter),
            roll if roll < read + update => self.update(meter),
            roll if roll < read + update + insert => self.insert(meter),
            roll if roll < read + update + insert + scan => self.scan(meter),
            _ => self.modify(meter),
        }
    }

    /// The key of a record that is there.
    #[inline]
    fn choose(&mut self) -> Key {
        if self.mix.insert > 0 {
            self.records = self.space.readable();
        }
        records::key(self.chooser.record(&mut self.random, self.records))
    }

    #[inline]
    fn read(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let key = self.choose();
        if self.many > 1 {
            self.wanted.push(key);
            return if self.wanted.len() < self.many { Ok(()) } else { self.read_many(meter) };
        }
        self.until_check -= 1;
        if self.phase.named.lends() && self.until_check > 0 {
            let mut sum = 0;
            let session = &mut *self.session;
            let found = meter.time(|| session.lend(&key, &mut |piece| sum = add(sum, piece)));
            black_box(sum);
            return self.expect(found, &key);
        }
        let found = meter.time(|| self.session.get(&key, &mut self.read));
        self.expect(found, &key)?;
        if self.until_check == 0 {
            self.until_check = READS_PER_CHECK;
            check_value(key, &self.read, self.phase.value_size())?;
        }
        Ok(())
    }

    /// Looks up the keys that were collected; each value is copied and now and then checked, as after a
    /// single lookup.
    fn read_many(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let wanted = std::mem::take(&mut self.wanted);
        let (value, until_check, size) =
            (&mut self.read, &mut self.until_check, self.phase.value_size());
        let (mut answers, mut wrong) = (0, None);
        let mut take = |i: usize, found: Option<&[u8]>| {
            answers += 1;
            let Some(found) = found else {
                wrong = Some(missing(&wanted[i]));
                return;
            };
            value.clear();
            value.extend_from_slice(found);
            *until_check -= 1;
            if *until_check == 0 {
                *until_check = READS_PER_CHECK;
                wrong = wrong.take().or(check_value(wanted[i], value, size).err());
            }
        };
        let expected = wanted.len() as u64;
        let found = meter.time_many(expected, || self.session.get_many(&wanted, &mut take));
        found.map_err(|error| self.phase.failed(error))?;
        self.wanted = wanted;
        self.wanted.clear();
        match wrong {
            Some(wrong) => Err(wrong),
            None if answers != expected => Err(BenchError::Wrong(format!(
                "{expected} lookups by one call gave {answers} answers"
            ))),
            None => Ok(()),
        }
    }

    /// Overwrites a record, or a batch of them in one commit, or, where operations are collected, so many
    /// by one call, once there are enough of them.
    fn update(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let count = self.changes.len();
        let is_batch = self.phase.plan.conditions.batch > 1;
        for _ in 0..if is_batch { count } else { 1 } {
            let (key, salt) = (self.choose(), self.random.random());
            let (stored, value) = &mut self.changes[self.changed];
            *stored = key;
            records::fill(key, salt, value);
            self.changed += 1;
        }
        if self.changed < count {
            return Ok(());
        }
        self.changed = 0;
        let put = match &*self.changes {
            [(key, value)] => meter.time(|| self.session.put(key, value)),
            changes if is_batch => meter.time(|| self.session.put_batch(changes)),
            changes => meter.time_many(count as u64, || self.session.put_many(changes)),
        };
        meter.wrote(count as u64);
        put.map_err(|error| self.phase.failed(error))
    }

    fn insert(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let key = records::key(self.space.reserve(self.thread));
        self.read.resize(self.phase.value_size(), 0);
        records::fill(key, 0, &mut self.read);
        let put = meter.time(|| self.session.put(&key, &self.read));
        put.map_err(|error| self.phase.failed(error))?;
        self.space.acknowledge(self.thread);
        meter.wrote(1);
        Ok(())
    }

    fn modify(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let (key, salt) = (self.choose(), self.random.random());
        let (mut whole, size) = (true, self.phase.value_size());
        let found = meter.time(|| {
            self.session.modify(&key, &mut |value| {
                whole = value.len() == size;
                records::fill(key, salt, value);
            })
        });
        self.expect(found, &key)?;
        meter.wrote(1);
        if whole { Ok(()) } else { Err(wrong_value(key)) }
    }

    fn scan(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let key = self.choose();
        let most = 1 + self.random.random_range(..Mix::MOST_SCANNED);
        if self.many > 1 {
            self.scans.push((key, most));
            return if self.scans.len() < self.many { Ok(()) } else { self.scan_many(meter) };
        }
        let mut reader = self.reader(&key);
        let scanned = meter.time(|| {
            let visit =
                &mut |key: &[u8], value: &[u8]| reader.take(key, value) && reader.count < most;
            self.session.scan(&key, visit)
        });
        scanned.map_err(|error| self.phase.failed(error))?;
        expect_first(reader, &key)
    }

    /// Makes the scans that were collected, each checked as one alone.
    fn scan_many(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let (starts, most): (Vec<Key>, Vec<u64>) = self.scans.drain(..).unzip();
        let mut readers: Vec<_> = starts.iter().map(|start| self.reader(start)).collect();
        let scanned = meter.time_many(starts.len() as u64, || {
            self.session.scan_many(&starts, &mut |i, key, value| {
                readers[i].take(key, value) && readers[i].count < most[i]
            })
        });
        scanned.map_err(|error| self.phase.failed(error))?;
        readers.into_iter().zip(&starts).try_for_each(|(reader, start)| expect_first(reader, start))
    }

    /// For a scan from `start`. Inserts under way may show up in it: any record of any number is right.
    fn reader(&self, start: &Key) -> ScanReader {
        ScanReader::new(u64::from_be_bytes(*start), self.phase.value_size(), u64::MAX)
    }

    #[inline]
    fn expect(&self, found: Result<bool, EngineError>, key: &Key) -> Result<(), BenchError> {
        match found.map_err(|error| self.phase.failed(error))? {
            true => Ok(()),
            false => Err(missing(key)),
        }
    }
}

/// A scan begins with the record that it was to begin with.
fn expect_first(reader: ScanReader, start: &Key) -> Result<(), BenchError> {
    let first = reader.first;
    reader.finish()?;
    if first == Some(u64::from_be_bytes(*start)) { Ok(()) } else { Err(missing(start)) }
}

fn missing(key: &Key) -> BenchError {
    BenchError::Missing { record: records::record_of(*key) }
}

/// Reads each byte, as fast as memory gives them.
fn add(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let of_word = |sum: u64, word: &[u8; 8]| sum.wrapping_add(u64::from_le_bytes(*word));
    let sum = words.iter().fold(sum, of_word);
    rest.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}
