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
    /// What was read.
    read: Vec<u8>,
    until_check: u64,
    /// Keys to be looked up by one call, if that is how lookups are made: until there are so many.
    wanted: Vec<Key>,
    /// What is written by one call, where that is more than one record: collected in the first
    /// `changed` places.
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
        // Batches are for commits, which are not made by many at once.
        let changes = phase.many.max(plan.batch as usize);
        let changes = if mix.update > 0 && changes > 1 { changes } else { 0 };
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
            read: Vec::with_capacity(plan.value_size),
            until_check: 1,
            wanted: Vec::with_capacity(phase.many),
            changes: vec![(Key::default(), vec![0; plan.value_size]); changes],
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
        let key = records::key(self.choose());
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
            return self.expect(found, &key);
        }
        let found = meter.time(|| self.session.get(&key, &mut self.read));
        self.expect(found, &key)?;
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
            })
        });
        found.map_err(BenchError::engine(self.phase.name))?;
        let expected = wanted.len() as u64;
        self.wanted.clear();
        match wrong {
            Some(wrong) => Err(wrong),
            None if answers != expected => Err(BenchError::WrongCount { found: answers, expected }),
            None => Ok(()),
        }
    }

    fn update(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        if !self.changes.is_empty() {
            return self.update_many(meter);
        }
        let key = records::key(self.choose());
        let salt = self.random.random();
        records::fill(key, salt, &mut self.value);
        let put = meter.time(|| self.session.put(&key, &self.value));
        meter.wrote(1);
        put.map_err(BenchError::engine(self.phase.name))
    }

    /// Collects what is written: a whole batch, which is then one commit (a record may come twice), or
    /// one record, until there are enough of them for a call.
    fn update_many(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let is_batch = self.phase.plan.batch > 1;
        let count = self.changes.len();
        loop {
            let key = records::key(self.choose());
            let salt = self.random.random();
            let (stored, value) = &mut self.changes[self.changed];
            *stored = key;
            records::fill(key, salt, value);
            self.changed += 1;
            if self.changed == count {
                break;
            }
            if !is_batch {
                return Ok(());
            }
        }
        self.changed = 0;
        let put = if is_batch {
            meter.time(|| self.session.put_batch(&self.changes))
        } else {
            meter.time_many(count as u64, || self.session.put_many(&self.changes))
        };
        meter.wrote(count as u64);
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
        let key = records::key(self.choose());
        let salt = self.random.random();
        let mut whole = true;
        let size = self.phase.plan.value_size;
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
        let key = records::key(self.choose());
        let most = 1 + self.random.random_range(..Mix::MOST_SCANNED);
        if self.phase.many > 1 {
            self.scans.push((key, most));
            return if self.scans.len() < self.phase.many { Ok(()) } else { self.scan_many(meter) };
        }
        let mut reader = reader(&key, self.phase.plan.value_size);
        let mut error = None;
        let scanned = meter.time(|| {
            self.session.scan(&key, &mut |key, value| {
                error = reader.take(key, value).err();
                error.is_none() && reader.count < most
            })
        });
        scanned.map_err(BenchError::engine(self.phase.name))?;
        error.map_or_else(|| expect_first(&reader, &key), Err)
    }

    /// Makes the scans that were collected, each checked as one alone.
    fn scan_many(&mut self, meter: &mut Meter<'_>) -> Result<(), BenchError> {
        let size = self.phase.plan.value_size;
        let (starts, most): (Vec<Key>, Vec<u64>) = self.scans.drain(..).unzip();
        let mut readers: Vec<_> = starts.iter().map(|start| reader(start, size)).collect();
        let mut error = None;
        let scanned = meter.time_many(starts.len() as u64, || {
            self.session.scan_many(&starts, &mut |i, key, value| {
                let reader = &mut readers[i];
                let wrong = reader.take(key, value).err();
                let goes_on = wrong.is_none() && reader.count < most[i];
                error = error.take().or(wrong);
                goes_on
            })
        });
        scanned.map_err(BenchError::engine(self.phase.name))?;
        error.map_or(Ok(()), Err)?;
        readers.iter().zip(&starts).try_for_each(|(reader, start)| expect_first(reader, start))
    }

    #[inline]
    fn expect(&self, found: Result<bool, EngineError>, key: &Key) -> Result<(), BenchError> {
        match found.map_err(BenchError::engine(self.phase.name))? {
            true => Ok(()),
            false => Err(missing(key)),
        }
    }
}

/// For a scan from `start`. Inserts under way may show up in it: any record of any number is right.
fn reader(start: &Key, value_size: usize) -> ScanReader {
    ScanReader::new(u64::from_be_bytes(*start), value_size, u64::MAX)
}

/// A scan begins with the record that it was to begin with.
fn expect_first(reader: &ScanReader, start: &Key) -> Result<(), BenchError> {
    if reader.first == Some(u64::from_be_bytes(*start)) { Ok(()) } else { Err(missing(start)) }
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
