//! The rows of the input, one item ahead, and their way into a table.

use polder::{MAX_VALUE_BYTES, Store, StoreError};

use super::summary::Summary;
use super::target::Target;
use super::{changed, misplaced};
use crate::exchange::{Entry, Item, Reader, Tally};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::{Progress, Unit};

/// Rows that are put into a table by one call, and the bytes of values that make it fewer.
const ROWS_A_CALL: usize = 1024;
const BYTES_A_CALL: usize = 1 << 20;

/// Ctrl-C is looked at, and the bar is moved, once in so many rows.
const ROWS_A_STEP: u64 = 256;

/// Items of the input.
pub struct Rows<'r> {
    reader: Reader,
    ahead: Option<Item>,
    stop: Interrupt,
    skip_bad: bool,
    /// The head of an export was read: every entry names its table.
    is_export: bool,
    max_key_bytes: usize,
    progress: Progress,
    summary: &'r mut Summary,
    /// Of the table that is being filled: rows that are in, and those of them that are new.
    loaded: u64,
    new: u64,
}

impl<'r> Rows<'r> {
    pub fn new(
        reader: Reader,
        store: &Store,
        skip_bad: bool,
        stop: Interrupt,
        summary: &'r mut Summary,
    ) -> Rows<'r> {
        let progress = match reader.bytes() {
            Some(bytes) => Progress::new("importing", Unit::Bytes, Some(bytes)),
            None => Progress::new("importing", Unit::Things("rows"), None),
        };
        let max_key_bytes = store.max_key_bytes();
        let (ahead, is_export, loaded, new) = (None, false, 0, 0);
        Rows {
            reader,
            ahead,
            stop,
            skip_bad,
            is_export,
            max_key_bytes,
            progress,
            summary,
            loaded,
            new,
        }
    }

    /// What to call the input in messages.
    pub fn name(&self) -> &str {
        self.reader.name()
    }

    /// Says something on standard error.
    pub fn note(&self, line: &str) {
        self.progress.note(line);
    }

    /// Reads the head of an export, if that comes first.
    pub fn begins_export(&mut self) -> Result<bool, Failure> {
        self.is_export = self.next_if(|item| *item == Item::Head)?.is_some();
        Ok(self.is_export)
    }

    /// The next item, which stays; `None` at the end.
    pub fn peek(&mut self) -> Result<Option<&Item>, Failure> {
        while self.ahead.is_none() {
            if self.summary.lines.is_multiple_of(ROWS_A_STEP) {
                self.stop.check()?;
                let read = self.reader.bytes().map(|_| self.reader.bytes_taken());
                self.progress.at(read.unwrap_or(self.summary.lines));
            }
            let Some(next) = self.reader.next()? else { return Ok(None) };
            self.summary.lines += 1;
            match next.and_then(|item| self.fits(item)) {
                Ok(item) => self.ahead = Some(item),
                Err(why) => self.bad_row(why)?,
            }
        }
        Ok(self.ahead.as_ref())
    }

    /// The next item, if it is such a one.
    pub fn next_if(&mut self, is: impl FnOnce(&Item) -> bool) -> Result<Option<Item>, Failure> {
        Ok(if self.peek()?.is_some_and(is) { self.ahead.take() } else { None })
    }

    /// The next entry, if it is one of this table.
    fn next_entry(&mut self, of: Option<&str>) -> Result<Option<Entry>, Failure> {
        let is = |item: &Item| matches!(item, Item::Entry(entry) if entry.table.as_deref() == of);
        Ok(match self.next_if(is)? {
            Some(Item::Entry(entry)) => Some(entry),
            _ => None,
        })
    }

    /// An entry that no table takes is a bad row, and in an export what can be of none of its tables.
    fn fits(&self, item: Item) -> Result<Item, String> {
        if self.is_export && matches!(&item, Item::Head | Item::Entry(Entry { table: None, .. })) {
            return Err(misplaced(&item));
        }
        if let Item::Entry(Entry { key, value, .. }) = &item {
            let (len, limit) = (key.len(), self.max_key_bytes);
            if len > limit {
                return Err(StoreError::KeyTooLong { len, limit }.to_string());
            }
            let (len, limit) = (value.len(), MAX_VALUE_BYTES);
            if len as u64 > limit {
                return Err(StoreError::ValueTooLong { len, limit }.to_string());
            }
        }
        Ok(item)
    }

    /// The failure of the line that was read last.
    pub fn bad(&self, why: String) -> Failure {
        Failure::BadInput { input: self.name().to_owned(), line: self.reader.line(), why }
    }

    /// Leaves a bad row out, or ends the import.
    fn bad_row(&mut self, why: String) -> Result<(), Failure> {
        if !self.skip_bad {
            return Err(self.bad(why));
        }
        let line = self.reader.line();
        self.summary.skip(&self.progress, self.reader.name(), line, &why);
        Ok(())
    }

    /// A failure of the store, with the line of the row that was on its way.
    pub fn of_row(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Store(source) => {
                let (input, line) = (self.name().to_owned(), self.reader.line());
                Failure::Row { input, line, source: Box::new(source) }
            }
            failure => failure,
        }
    }

    /// Puts the entries that come next and are of this table into the target.
    pub fn fill(&mut self, target: &Target<'_>, of: Option<&str>) -> Result<Tally, Failure> {
        (self.loaded, self.new) = (0, 0);
        let mut tally = Tally::default();
        if target.table().is_empty() {
            self.load_ascending(target, of, &mut tally)?;
        }
        loop {
            let (mut entries, mut lines) = (Vec::new(), Vec::new());
            let read = self.collect(of, &mut entries, &mut lines);
            self.put(target, &entries, &lines)?;
            read?;
            if entries.is_empty() {
                return Ok(tally);
            }
            entries.iter().for_each(|(key, value)| tally.add(key, value));
        }
    }

    /// Reads the entries of the table that come next, as many as are put into it by one call, and the
    /// lines on which they end. What came before a failure is there.
    fn collect(
        &mut self,
        of: Option<&str>,
        entries: &mut Vec<(Vec<u8>, Vec<u8>)>,
        lines: &mut Vec<u64>,
    ) -> Result<(), Failure> {
        let mut bytes = 0;
        while entries.len() < ROWS_A_CALL
            && bytes < BYTES_A_CALL
            && let Some(Entry { key, value, .. }) = self.next_entry(of)?
        {
            bytes += value.len();
            entries.push((key, value));
            lines.push(self.reader.line());
        }
        Ok(())
    }

    /// Puts entries into the table; a failure is that of the line of its row.
    fn put(
        &mut self,
        target: &Target<'_>,
        entries: &[(Vec<u8>, Vec<u8>)],
        lines: &[u64],
    ) -> Result<(), Failure> {
        let before = target.table().len();
        let put = target.table().put_many(entries);
        // No one else writes to the store.
        self.new += target.table().len() - before;
        match put {
            Ok(_) => self.loaded += entries.len() as u64,
            Err(StoreError::Key { index, source }) => {
                self.loaded += index as u64;
                let (input, line) = (self.name().to_owned(), lines[index]);
                return Err(Failure::Row { input, line, source });
            }
            Err(error) => return Err(self.of_row(error.into())),
        }
        Ok(())
    }

    /// The same, as long as they come in ascending order.
    fn load_ascending(
        &mut self,
        target: &Target<'_>,
        of: Option<&str>,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let mut last: Option<Vec<u8>> = None;
        let mut failed = None;
        let entries = std::iter::from_fn(|| {
            let is_next = |item: &Item| match item {
                Item::Entry(entry) if entry.table.as_deref() == of => {
                    last.as_ref().is_none_or(|last| entry.key > *last)
                }
                _ => false,
            };
            match self.next_if(is_next) {
                Ok(Some(Item::Entry(Entry { key, value, .. }))) => {
                    tally.add(&key, &value);
                    last = Some(key.clone());
                    Some((key, value))
                }
                Ok(_) => None,
                Err(failure) => {
                    failed = Some(failure);
                    None
                }
            }
        });
        let loaded = target.table().bulk_load(entries);
        let loaded = loaded.map_err(|error| self.of_row(error.into()))?;
        (self.loaded, self.new) = (loaded, loaded);
        failed.map_or(Ok(()), Err)
    }

    /// Reads past the entries of a table.
    pub fn pass(&mut self, table: &str) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        while let Some(entry) = self.next_entry(Some(table))? {
            tally.add(&entry.key, &entry.value);
        }
        Ok(tally)
    }

    /// The filling of a table has ended, well or not.
    pub fn end(&mut self, target: Target<'_>, filled: Result<(), Failure>) -> Result<(), Failure> {
        let (name, is_new) = (target.name().to_owned(), target.is_new());
        let outcome = match filled {
            Ok(()) => target.keep(),
            Err(failure) => {
                // The first failure is the one to report; what could not be removed is told by its
                // name.
                let _ = target.give_up();
                Err(failure)
            }
        };
        match outcome {
            Ok(()) => self.summary.whole(&name, self.loaded, self.new),
            Err(_) => self.summary.partial(&name, is_new, self.loaded, self.new),
        }
        outcome
    }

    /// Reads the end of a table, of which these entries were found.
    pub fn expect_end(&mut self, table: &str, found: Tally) -> Result<(), Failure> {
        let end =
            self.next_if(|item| matches!(item, Item::TableEnd { table: of, .. } if of == table))?;
        match end {
            Some(Item::TableEnd { tally, .. }) if tally == found => Ok(()),
            Some(Item::TableEnd { tally, .. }) => self.bad_row(changed(table, found, tally)),
            // Where the next table begins, at least.
            _ => {
                let why = self.ahead.as_ref().map_or(CUT_OFF.to_owned(), misplaced);
                self.bad_row(format!("table `{table}` has no end: {why}"))
            }
        }
    }

    /// Reads the end of an export, of which so many tables were found, and of the input.
    pub fn expect_tables(&mut self, found: u64) -> Result<(), Failure> {
        match self.next_if(|item| matches!(item, Item::End { .. }))? {
            Some(Item::End { tables }) if tables == found => {}
            Some(Item::End { tables }) => self.bad_row(format!(
                "there are {found} tables before it, and {tables} were exported"
            ))?,
            _ => {
                let why = self.ahead.as_ref().map_or(CUT_OFF.to_owned(), misplaced);
                self.bad_row(why)?;
            }
        }
        match self.next_if(|_| true)? {
            None => Ok(()),
            // A user who skips bad rows wants the others: nothing is left out without a word.
            Some(item) => {
                Err(self.bad(format!("behind the end of the export: {}", misplaced(&item))))
            }
        }
    }
}

/// What is said where the input ends and the export does not.
const CUT_OFF: &str = "the input ends, and the end of the export is missing: it was cut off";
