//! Reading rows: by calls, which wait for the device, or by futures, so that the thread goes on with
//! transactions of its other terminals meanwhile.

use polder::{AsyncRange, KeyRange, Range, Table};

use super::super::data::rows::{self, Kind};
use super::Client;
use crate::error::BenchError;

/// Entries in the order of their keys.
pub(super) enum Entries {
    Called(Range),
    Awaited(AsyncRange),
}

impl Entries {
    /// Looks at the next one, if there is one.
    pub(super) async fn next<R>(
        &mut self,
        look: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, BenchError> {
        Ok(match self {
            Entries::Called(range) => range.next_entry()?.map(|(key, value)| look(key, value)),
            Entries::Awaited(range) => {
                range.next().await.transpose()?.map(|(key, value)| look(&key, &value))
            }
        })
    }

    /// Looks at the last one, if there is one.
    pub(super) async fn last<R>(
        self,
        look: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, BenchError> {
        Ok(match self {
            Entries::Called(mut range) => {
                range.next_entry_back()?.map(|(key, value)| look(key, value))
            }
            Entries::Awaited(range) => {
                range.backward().next().await.transpose()?.map(|(key, value)| look(&key, &value))
            }
        })
    }
}

impl<const AWAITS: bool> Client<'_, AWAITS> {
    pub(super) fn rows_in(&self, table: &Table, bounds: impl KeyRange) -> Entries {
        match AWAITS {
            true => Entries::Awaited(table.asynchronous().range(bounds)),
            false => Entries::Called(table.range(bounds)),
        }
    }

    pub(super) fn rows_with_prefix(&self, table: &Table, prefix: impl AsRef<[u8]>) -> Entries {
        match AWAITS {
            true => Entries::Awaited(table.asynchronous().prefix(prefix)),
            false => Entries::Called(table.prefix(prefix)),
        }
    }

    /// Looks at the fields of a row, and at the text behind them, if there is a whole row.
    #[inline]
    pub(super) async fn find<K: Kind, R>(
        &self,
        table: &Table,
        key: &[u8],
        look: impl FnOnce(&K, &[u8]) -> R,
    ) -> Result<Option<R>, BenchError> {
        if !AWAITS {
            return rows::find(table, key, look);
        }
        let row = table.asynchronous().get(key).await?;
        Ok(row.and_then(|row| K::of(&row).map(|(row, data)| look(row, data))))
    }

    /// The same of a row that must be there.
    #[inline]
    pub(super) async fn look<K: Kind, R>(
        &self,
        table: &Table,
        key: &[u8],
        look: impl FnOnce(&K) -> R,
    ) -> Result<R, BenchError> {
        let found = self.find(table, key, |row, _| look(row)).await?;
        found.ok_or_else(|| BenchError::no_row(table, key))
    }

    pub(super) async fn version(
        &self,
        table: &Table,
        key: &[u8],
    ) -> Result<Option<u64>, BenchError> {
        Ok(match AWAITS {
            true => table.asynchronous().version(key).await?,
            false => table.version(key)?,
        })
    }

    /// Reads a row that is going to be changed, and its version.
    #[inline]
    pub(super) async fn read<K: Kind>(
        &mut self,
        table: &Table,
        key: &[u8],
    ) -> Result<(u64, &mut K), BenchError> {
        let version = if AWAITS {
            let found = table.asynchronous().get_versioned(key).await?;
            found.map(|(version, row)| {
                self.row = row;
                version
            })
        } else {
            table.get_versioned_with(key, |version, bytes: &[u8]| {
                self.row.clear();
                self.row.extend_from_slice(bytes);
                version
            })?
        };
        let row = K::mut_from_prefix(&mut self.row).ok();
        version.zip(row.map(|(fields, _)| fields)).ok_or_else(|| BenchError::no_row(table, key))
    }
}
