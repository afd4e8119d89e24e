//! Entries as text: what `polder export` and `polder scan` write, and what `polder import` reads.
//!
//! Two formats, of one entry a line: tab-separated columns, and JSON. Keys, values and names of
//! tables are bytes; in both formats what is text stands as text, and the escapes of [`text`] stand
//! for the rest, so that any bytes come back.
//!
//! An *export* has whole tables. It begins with a head, tells at the end of each table how many
//! entries it has and the checksum of all of them, and how many tables there were at its own end:
//! so an import notices whatever became of it on the way. *Plain rows*, as a scan gives them or a
//! person writes them, are keys and values of one table and nothing else.
//!
//! | | tab-separated | JSON |
//! |---|---|---|
//! | head | `table` `key` `value` | `{"polder_export":1}` |
//! | entry of an export | TABLE KEY VALUE | `{"table":TABLE,"key":KEY,"value":VALUE}` |
//! | end of a table | nothing, TABLE, `entries=N crc32c=HEX` | `{"table":TABLE,"entries":N,"crc32c":"HEX"}` |
//! | end of an export | nothing, nothing, `tables=N` | `{"tables":N}` |
//! | plain row | KEY VALUE | `{"key":KEY,"value":VALUE}` |
//!
//! [`text`]: crate::text

mod format;
mod item;
mod jsonl;
mod reader;
mod tsv;
mod writer;

pub use format::{Format, ImportFormat};
pub use item::{Entry, Item, Tally};
pub use reader::Reader;
pub use writer::Writer;
