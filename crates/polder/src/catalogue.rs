//! What the catalogue says of a table; `docs/format.md`, "Catalogue".

use polder_format::SpaceId;

/// Where the tag of the last batch lies that had one. No table has an empty name.
pub(crate) const TAG_KEY: &[u8] = b"";

const RECORD_LAYOUT: u8 = 1;
const TABLE: u8 = 1;
const RECORD_BYTES: usize = 16;

/// Longest name of a table in bytes.
pub const MAX_TABLE_NAME_BYTES: usize = 255;

/// A table's entry in the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableRecord {
    pub(crate) space: SpaceId,
}

impl TableRecord {
    pub(crate) fn encode(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[0] = RECORD_LAYOUT;
        bytes[1] = TABLE;
        bytes[4..8].copy_from_slice(&self.space.get().to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<TableRecord, &'static str> {
        let bytes: &[u8; RECORD_BYTES] =
            bytes.try_into().map_err(|_| "a table's record has the wrong length")?;
        if bytes[0] != RECORD_LAYOUT || bytes[1] != TABLE || bytes[2..4] != [0, 0] {
            return Err("a newer version of Polder wrote a table's record");
        }
        let space = bytes[4..8].iter().rev();
        let space = space.fold(0, |number, byte| number << 8 | u64::from(*byte));
        let space = SpaceId::new(space)
            .filter(|space| *space > SpaceId::CATALOGUE)
            .ok_or("a table's record names an impossible space")?;
        Ok(TableRecord { space })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_damage_is_seen() {
        let record = TableRecord { space: SpaceId::new(7).unwrap() };
        assert_eq!(TableRecord::decode(&record.encode()), Ok(record));
        for bad in [&[][..], &[0; 16], &[1; 16], &[1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert!(TableRecord::decode(bad).is_err());
        }
    }
}
