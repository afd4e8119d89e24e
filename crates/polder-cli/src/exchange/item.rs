//! What a line says, whatever the format.

use crc32c::crc32c_append;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// The head of an export.
    Head,
    /// An entry.
    Entry(Entry),
    /// The end of a table of an export.
    TableEnd { table: String, tally: Tally },
    /// The end of an export, which has so many tables.
    End { tables: u64 },
}

/// A key and its value.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// Of an export, the table.
    pub table: Option<String>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// By what the entries of a table are known again.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub entries: u64,
    /// Of the length (8 bytes, little-endian) and the bytes of each key and each value, one behind
    /// the other.
    pub crc32c: u32,
}

impl Tally {
    /// Counts an entry.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.entries += 1;
        for bytes in [key, value] {
            self.crc32c = crc32c_append(self.crc32c, &(bytes.len() as u64).to_le_bytes());
            self.crc32c = crc32c_append(self.crc32c, bytes);
        }
    }

    /// The checksum as it is written.
    pub fn hex(&self) -> String {
        format!("{:08x}", self.crc32c)
    }

    /// A tally from its count and its checksum as it is written.
    pub fn of(entries: u64, hex: &str) -> Result<Tally, String> {
        let crc32c = u32::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 8);
        let crc32c = crc32c.ok_or_else(|| format!("{hex:?} is no checksum"))?;
        Ok(Tally { entries, crc32c })
    }
}
