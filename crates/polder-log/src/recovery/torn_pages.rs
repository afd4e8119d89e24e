//! R5: pages that are torn in place are restored from the double-write buffer.

use std::ops::Range;

use polder_format::{Lsn, PageSize};
use polder_pool::device::{Device, is_full, write_block};

use super::second_copies::SecondCopies;
use crate::error::LogError;

/// R5: restores what is torn in place, and makes all durable. Gives the number of torn pages.
/// `replayed`: the part of the log that is replayed. A page that was not changed in it was synced
/// by the checkpoint that it begins with: if it is not whole it is damaged, and what a slot holds
/// of it may be older than what was there. A state that is newer than the log does not count.
pub(super) fn restore_torn(
    copies: &SecondCopies,
    data: &dyn Device,
    page_size: PageSize,
    replayed: Range<Lsn>,
) -> Result<u64, LogError> {
    let mut restored = 0;
    let of_log = |lsn| lsn > replayed.start && lsn <= replayed.end;
    let len = data.len().map_err(LogError::io("read"))?;
    for torn in copies.torn(data, len, &of_log) {
        let torn = torn.map_err(LogError::io("read"))?;
        match write_block(data, torn.physical.offset(page_size), &torn.image) {
            Ok(()) => restored += 1,
            // A page that was freed later, and its block given back: nobody needs it. If
            // somebody does, R8 finds out.
            Err(error) if is_full(&error) && torn.there.iter().all(|byte| *byte == 0) => {}
            Err(error) => return Err(LogError::io("write")(error)),
        }
    }
    // Also if nothing was torn: what is whole may be so in a cache alone, and slots are used again.
    data.sync().map_err(LogError::io("sync"))?;
    Ok(restored)
}
