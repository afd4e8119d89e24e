//! What the catalogue says of a space; `docs/format.md`, "Catalogue".

use std::fmt;

use polder_format::SpaceId;

/// Where the tag of the last batch lies that had one. No table has an empty name.
pub(crate) const TAG_KEY: &[u8] = b"";

const RECORD_LAYOUT: u8 = 1;
const TABLE: u8 = 1;
const STRUCTURE: u8 = 2;
/// What every record has; the kinds and the name of a structure follow.
const RECORD_BYTES: usize = 16;

/// Longest name of a table in bytes.
pub const MAX_TABLE_NAME_BYTES: usize = 255;
/// Longest name of a structure in bytes, and the most kinds of pages that it has.
pub(crate) const MAX_STRUCTURE_BYTES: usize = 64;
pub(crate) const MAX_KINDS: usize = 32;

/// What the store's own tables are called among structures.
pub(crate) const TABLE_NAME: &str = "table";

/// What lies in a space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lodger {
    /// A table, which is the store's own.
    Own,
    /// A structure that is registered under this name, and the kinds of its pages.
    Structure { name: String, kinds: Vec<u8> },
}

impl Lodger {
    /// What the registry calls it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Lodger::Own => TABLE_NAME,
            Lodger::Structure { name, .. } => name,
        }
    }
}

impl fmt::Display for Lodger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An entry in the catalogue: the space that a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpaceRecord {
    pub(crate) space: SpaceId,
    pub(crate) lodger: Lodger,
}

impl SpaceRecord {
    /// Names and kinds are not longer than they may be.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; RECORD_BYTES];
        bytes[0] = RECORD_LAYOUT;
        bytes[4..8].copy_from_slice(&self.space.get().to_le_bytes());
        match &self.lodger {
            Lodger::Own => bytes[1] = TABLE,
            Lodger::Structure { name, kinds } => {
                (bytes[1], bytes[2], bytes[3]) = (STRUCTURE, kinds.len() as u8, name.len() as u8);
                bytes.extend_from_slice(kinds);
                bytes.extend_from_slice(name.as_bytes());
            }
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<SpaceRecord, &'static str> {
        let (head, rest) = bytes
            .split_at_checked(RECORD_BYTES)
            .ok_or("a record of the catalogue has the wrong length")?;
        let lodger = match (head[0], head[1], &head[2..4]) {
            (RECORD_LAYOUT, TABLE, [0, 0]) if rest.is_empty() => Lodger::Own,
            (RECORD_LAYOUT, STRUCTURE, [kinds, name]) => structure(rest, *kinds, *name)?,
            _ => return Err("a newer version of Polder wrote a record of the catalogue"),
        };
        let space = head[4..8].iter().rev();
        let space = space.fold(0, |number, byte| number << 8 | u64::from(*byte));
        let space = SpaceId::new(space)
            .filter(|space| *space > SpaceId::CATALOGUE)
            .ok_or("a record of the catalogue names an impossible space")?;
        Ok(SpaceRecord { space, lodger })
    }
}

fn structure(rest: &[u8], kinds: u8, name: u8) -> Result<Lodger, &'static str> {
    if rest.len() != usize::from(kinds) + usize::from(name) {
        return Err("a record of the catalogue has the wrong length");
    }
    let (kinds, name) = rest.split_at(usize::from(kinds));
    let name = std::str::from_utf8(name).map_err(|_| "the name of a structure is no text")?;
    Ok(Lodger::Structure { name: name.to_string(), kinds: kinds.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_damage_is_seen() {
        let space = SpaceId::new(7).unwrap();
        let structure = Lodger::Structure { name: "a.b".to_string(), kinds: vec![200, 201] };
        for lodger in [Lodger::Own, structure] {
            let record = SpaceRecord { space, lodger };
            let bytes = record.encode();
            assert_eq!(SpaceRecord::decode(&bytes), Ok(record));
            assert!(SpaceRecord::decode(&bytes[..bytes.len() - 1]).is_err());
            assert!(SpaceRecord::decode(&[&bytes[..], b"x"].concat()).is_err());
        }
        for bad in [&[][..], &[0; 16], &[1; 16], &[1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert!(SpaceRecord::decode(bad).is_err());
        }
    }
}
