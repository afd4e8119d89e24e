//! What the catalogue says of a table; `docs/format.md`, "Catalogue".

use polder_format::SpaceId;

const RECORD_LAYOUT: u8 = 1;
const TABLE: u8 = 1;
const RECORD_BYTES: usize = 16;

/// Longest name of a table in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 255;

/// A table's entry in the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableRecord {
    pub(crate) space: SpaceId,
    /// Entries when the store was closed.
    pub(crate) entries: u64,
}

impl TableRecord {
    pub(crate) fn encode(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[0] = RECORD_LAYOUT;
        bytes[1] = TABLE;
        bytes[4..8].copy_from_slice(&self.space.get().to_le_bytes());
        bytes[8..16].copy_from_slice(&self.entries.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<TableRecord, &'static str> {
        let bytes: &[u8; RECORD_BYTES] =
            bytes.try_into().map_err(|_| "a table's record has the wrong length")?;
        if bytes[0] != RECORD_LAYOUT || bytes[1] != TABLE || bytes[2..4] != [0, 0] {
            return Err("a newer version of Polder wrote a table's record");
        }
        let (space, entries) = bytes[4..].split_at(4);
        let space = space.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let entries = entries.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let space = SpaceId::new(space)
            .filter(|space| *space > SpaceId::CATALOGUE)
            .ok_or("a table's record names an impossible space")?;
        Ok(TableRecord { space, entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_damage_is_seen() {
        let record = TableRecord { space: SpaceId::new(7).unwrap(), entries: 1 << 40 };
        assert_eq!(TableRecord::decode(&record.encode()), Ok(record));
        for bad in [&[][..], &[0; 16], &[1; 16], &[1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert!(TableRecord::decode(bad).is_err());
        }
    }
}
