//! A value on its way into a leaf: in the leaf itself, or in pages of its own that were written
//! before.

use polder_format::PageNo;
use polder_format::log::{LoggedValue, Operation};
use polder_pool::{Space, Translation};

use crate::error::TreeError;
use crate::node::{MAX_VALUE_BYTES, NewValue, max_key_len, must_overflow};
use crate::overflow::{Long, write_chain};

/// That a leaf can have this key.
pub(crate) fn check_key<T: Translation>(space: &Space<T>, key: &[u8]) -> Result<(), TreeError> {
    let (len, limit) = (key.len(), max_key_len(space.page_size().bytes()));
    if len > limit { Err(TreeError::KeyTooLong { len, limit }) } else { Ok(()) }
}

/// A value as it goes into a leaf.
pub(crate) enum Stored<'v> {
    Inline(&'v [u8]),
    /// In these pages.
    Long(Long, Vec<PageNo>),
}

impl<'v> Stored<'v> {
    /// Makes a value ready for a leaf: writes the pages of one that does not fit.
    ///
    /// # Errors
    /// [`TreeError::KeyTooLong`], [`TreeError::ValueTooLong`], and those of making pages; none are
    /// left then.
    pub(crate) fn make<T: Translation>(
        space: &Space<T>,
        key: &[u8],
        value: &'v [u8],
    ) -> Result<Stored<'v>, TreeError> {
        check_key(space, key)?;
        if value.len() as u64 > MAX_VALUE_BYTES {
            return Err(TreeError::ValueTooLong { len: value.len() });
        }
        if must_overflow(space.page_size().bytes(), key.len(), value.len()) {
            let (long, pages) = write_chain(space, value)?;
            Ok(Stored::Long(long, pages))
        } else {
            Ok(Stored::Inline(value))
        }
    }

    pub(crate) fn as_new(&self) -> NewValue<'_> {
        match self {
            Stored::Inline(bytes) => NewValue::Inline(bytes),
            Stored::Long(long, _) => {
                NewValue::Overflow { len: long.len, run: long.run, link: long.link }
            }
        }
    }

    fn as_logged(&self) -> LoggedValue<'_> {
        match self {
            Stored::Inline(bytes) => LoggedValue::Inline(bytes),
            Stored::Long(long, _) => {
                LoggedValue::Long { len: long.len, run: long.run, link: long.link }
            }
        }
    }

    /// The pages of a long value.
    pub(crate) fn pages(&self) -> &[PageNo] {
        match self {
            Stored::Inline(_) => &[],
            Stored::Long(_, pages) => pages,
        }
    }

    /// The record of an insert.
    pub(crate) fn logged<'a>(&'a self, key: &'a [u8], version: u64, added: bool) -> Operation<'a> {
        Operation::Insert { added, version, key, value: self.as_logged() }
    }

    /// Bytes of that record that are neither header nor key.
    pub(crate) fn logged_len(&self) -> usize {
        match self {
            Stored::Inline(bytes) => bytes.len(),
            Stored::Long(..) => 16,
        }
    }
}
