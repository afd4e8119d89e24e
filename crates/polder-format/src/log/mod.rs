//! The log as it lies on disk: groups of records in segments, and the slots of the double-write
//! buffer. Drawn in `docs/format.md`, "The log file".

mod file;
mod group;
mod record;

pub use file::{
    Lines, LogHeader, Region, RegionKind, SegmentHeader, SlotHeader, SlotPage, slot_pages,
};
pub use group::{
    GROUP_BYTES_MIN, GROUP_HEADER_BYTES, Group, GroupHeader, LOG_BLOCK_BYTES, LogSeed, Pad, Records,
};
pub use record::{
    Counts, LoggedValue, Operation, RECORD_BYTES_AT_MOST, Record, RecordHead, TableCount,
};
pub use record::{flag, kind};
