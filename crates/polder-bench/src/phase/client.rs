//! One thread that does a mix of operations.

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
    /// What is written.
    value: Vec<u8>,
    /// What is written at once, where that is more than one record.
    batch: Vec<(Key, Vec<u8>)>,
    /// What was read.
    read: Vec<u8>,
    until_check: u64,
    /// Keys to be looked up by one call, if that is how lookups are made: until there are so many.
    wanted: Vec<Key>,
    /// The same of what is written, in the first `changed` places.
    changes: Vec<(Key, Vec<u8>)>,
    changed: usize,
    /// The same of scans: where each begins, and how many entries it has.
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
        let plan = phase.plan;
        let batch = if plan.batch > 1 { plan.batch as usize } else { 0 };
        Client {
            phase,
            thread,
            session,
            mix,
            random: stream(plan.seed, (phase.number << 16) | thread as u64),
            chooser: Chooser::new(dist, plan.theta, records),
            space,
            records,
            value: vec![0; plan.value_size],
            batch: vec![(Key::default(), vec![0; plan.value_size]); batch],
            read: Vec::with_capacity(plan.value_size),
            until_check: 1,
            wanted: Vec::with_capacity(phase.many),
            changes: Vec::new(),
            changed: 0,
            scans: Vec::new(),
        }
    }

    /// Does one operation of the mix.
    #[inline]
    pub(super) fn operate(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let (mix, roll) = (self.mix, self.random.random_range(..100u64));
        let mut border = mix.read;
        if roll < border {
            return self.read(meter);
        }
        border += mix.update;
        if roll < border {
            return self.update(meter);
        }
        border += mix.insert;
        if roll < border {
            return self.insert(meter);
        }
        border += mix.scan;
        if roll < border { self.scan(meter) } else { self.modify(meter) }
    }

    /// A record that is there.
    #[inline]
    fn choose(&mut self) -> u64 {
        if self.mix.insert > 0 {
            self.records = self.space.readable();
        }
        self.chooser.record(&mut self.random, self.records)
    }

    #[inline]
    fn read(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let record = self.choose();
        let key = records::key(record);
        if self.phase.many > 1 {
            self.wanted.push(key);
            return if self.wanted.len() < self.phase.many {
                Ok(())
            } else {
                self.read_many(meter)
            };
        }
        self.until_check -= 1;
        if self.phase.lends && self.until_check > 0 {
            let mut sum = 0;
            let session = &mut *self.session;
            let found = meter.time(|| session.lend(&key, &mut |piece| sum = add(sum, piece)));
            std::hint::black_box(sum);
            return self.expect(found, record);
        }
        let found = meter.time(|| self.session.get(&key, &mut self.read));
        self.expect(found, record)?;
        if self.until_check == 0 {
            self.until_check = READS_PER_CHECK;
            check_value(key, &self.read, self.phase.plan.value_size)?;
        }
        Ok(())
    }

    /// Looks up the keys that were collected; each value is copied and now and then checked, as after a
    /// single lookup.
    fn read_many(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let (wanted, value, until_check) = (&self.wanted, &mut self.read, &mut self.until_check);
        let size = self.phase.plan.value_size;
        let (mut answers, mut wrong) = (0, None);
        let session = &mut *self.session;
        let found = meter.time_many(wanted.len() as u64, || {
            session.get_many(wanted, &mut |i, found| {
                let Some(found) = found else { return };
                answers += 1;
                value.clear();
                value.extend_from_slice(found);
                *until_check -= 1;
                if *until_check == 0 {
                    *until_check = READS_PER_CHECK;
                    wrong = wrong.take().or(check_value(wanted[i], value, size).err());
                }
            })
        });
        found.map_err(BenchError::engine(self.phase.name))?;
        let keys = std::mem::take(&mut self.wanted);
        if answers != keys.len() {
            for key in &keys {
                let found = self.session.get(key, &mut self.read);
                self.expect(found, records::record_of(*key))?;
            }
            let (found, expected) = (answers as u64, keys.len() as u64);
            return Err(BenchError::WrongCount { found, expected });
        }
        self.wanted = keys;
        self.wanted.clear();
        wrong.map_or(Ok(()), Err)
    }

    fn update(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        if !self.batch.is_empty() {
            return self.update_batch(meter);
        }
        let key = records::key(self.choose());
        let salt = self.random.random();
        if self.phase.many > 1 {
            return self.update_later(key, salt, meter);
        }
        records::fill(key, salt, &mut self.value);
        let put = meter.time(|| self.session.put(&key, &self.value));
        meter.wrote(1);
        put.map_err(BenchError::engine(self.phase.name))
    }

    /// Collects what is written, until it is enough for a call.
    fn update_later(
        &mut self,
        key: Key,
        salt: u64,
        meter: &mut Meter<'_>,
    ) -> Result<(), BenchError> {
        let (many, size) = (self.phase.many, self.phase.plan.value_size);
        if self.changes.is_empty() {
            self.changes.resize(many, (Key::default(), vec![0; size]));
        }
        let (stored, value) = &mut self.changes[self.changed];
        *stored = key;
        records::fill(key, salt, value);
        self.changed += 1;
        if self.changed < many {
            return Ok(());
        }
        self.changed = 0;
        let put = meter.time_many(many as u64, || self.session.put_many(&self.changes));
        meter.wrote(many as u64);
        put.map_err(BenchError::engine(self.phase.name))
    }

    /// The same for many records in one commit; a record may come twice.
    fn update_batch(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        for at in 0..self.batch.len() {
            let key = records::key(self.choose());
            let salt = self.random.random();
            let (stored, value) = &mut self.batch[at];
            *stored = key;
            records::fill(key, salt, value);
        }
        let put = meter.time(|| self.session.put_batch(&self.batch));
        meter.wrote(self.batch.len() as u64);
        put.map_err(BenchError::engine(self.phase.name))
    }

    fn insert(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let key = records::key(self.space.reserve(self.thread));
        records::fill(key, 0, &mut self.value);
        let put = meter.time(|| self.session.put(&key, &self.value));
        put.map_err(BenchError::engine(self.phase.name))?;
        self.space.acknowledge(self.thread);
        meter.wrote(1);
        Ok(())
    }

    fn modify(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let record = self.choose();
        let key = records::key(record);
        let salt = self.random.random();
        let mut whole = true;
        let size = self.phase.plan.value_size;
        let found = meter.time(|| {
            self.session.modify(&key, &mut |value| {
                whole = value.len() == size;
                records::fill(key, salt, value);
            })
        });
        self.expect(found, record)?;
        meter.wrote(1);
        if whole { Ok(()) } else { Err(wrong_value(key)) }
    }

    fn scan(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let record = self.choose();
        let key = records::key(record);
        let most = 1 + self.random.random_range(..Mix::MOST_SCANNED);
        let start = u64::from_be_bytes(key);
        if self.phase.many > 1 {
            self.scans.push((key, most));
            return if self.scans.len() < self.phase.many { Ok(()) } else { self.scan_many(meter) };
        }
        // Inserts under way may show up in a scan: any record of any number is right.
        let mut reader = ScanReader::new(start, self.phase.plan.value_size, u64::MAX);
        let mut error = None;
        let scanned = meter.time(|| {
            self.session.scan(&key, &mut |key, value| {
                error = reader.take(key, value).err();
                error.is_none() && reader.count < most
            })
        });
        scanned.map_err(BenchError::engine(self.phase.name))?;
        match error {
            Some(error) => Err(error),
            None if reader.first != Some(start) => Err(BenchError::Missing { record }),
            None => Ok(()),
        }
    }

    /// Makes the scans that were collected, each checked as one alone.
    fn scan_many(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let size = self.phase.plan.value_size;
        let scans = std::mem::take(&mut self.scans);
        let starts: Vec<Key> = scans.iter().map(|(start, _)| *start).collect();
        let reader = |start: &Key| ScanReader::new(u64::from_be_bytes(*start), size, u64::MAX);
        let mut readers: Vec<_> = starts.iter().map(reader).collect();
        let mut error = None;
        let scanned = meter.time_many(starts.len() as u64, || {
            self.session.scan_many(&starts, &mut |i, key, value| {
                let reader = &mut readers[i];
                let wrong = reader.take(key, value).err();
                let goes_on = wrong.is_none() && reader.count < scans[i].1;
                error = error.take().or(wrong);
                goes_on
            })
        });
        scanned.map_err(BenchError::engine(self.phase.name))?;
        self.scans = scans;
        self.scans.clear();
        let missed = readers
            .iter()
            .zip(&starts)
            .find(|(reader, start)| reader.first != Some(u64::from_be_bytes(**start)));
        match (error, missed) {
            (Some(error), _) => Err(error),
            (None, Some((_, start))) => {
                Err(BenchError::Missing { record: records::record_of(*start) })
            }
            (None, None) => Ok(()),
        }
    }

    #[inline]
    fn expect(&self, found: Result<bool, EngineError>, record: u64) -> Result<(), BenchError> {
        match found.map_err(BenchError::engine(self.phase.name))? {
            true => Ok(()),
            false => Err(BenchError::Missing { record }),
        }
    }
}

/// Reads each byte, as fast as memory gives them.
fn add(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let of_word = |sum: u64, word: &[u8; 8]| sum.wrapping_add(u64::from_le_bytes(*word));
    let sum = words.iter().fold(sum, of_word);
    rest.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}
