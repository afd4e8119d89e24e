//! What lies in the tables of a collection. Numbers are little-endian, but for labels as keys, which are
//! in order so.
//!
//! | table | key | value |
//! |---|---|---|
//! | `keys` | the user's | label, 8 bytes; node, 5 bytes |
//! | `rows` | label | length of the key, 2 bytes; the key; the payload |
//! | `pending` | label | 1, and the bytes of the vector, or none for one of many: it is coming; or 2, and its node, 5 bytes: it is going |

use polder_vector::NodeId;

const LABEL: usize = 8;
const NODE: usize = 5;
const KEY_LEN: usize = 2;
const COMING: u8 = 1;
const GOING: u8 = 2;

/// Where the vector of a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) label: u64,
    pub(super) node: NodeId,
}

impl Place {
    pub(super) fn to_bytes(self) -> [u8; LABEL + NODE] {
        let mut bytes = [0; LABEL + NODE];
        bytes[..LABEL].copy_from_slice(&self.label.to_le_bytes());
        bytes[LABEL..].copy_from_slice(&node_bytes(self.node));
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Place> {
        let (label, node) = bytes.split_first_chunk()?;
        Some(Place { label: u64::from_le_bytes(*label), node: node_of(node)? })
    }
}

fn node_bytes(node: NodeId) -> [u8; NODE] {
    let bytes = node.to_bits().to_le_bytes();
    std::array::from_fn(|i| bytes[i])
}

fn node_of(bytes: &[u8]) -> Option<NodeId> {
    let bytes: &[u8; NODE] = bytes.try_into().ok()?;
    NodeId::from_bits(bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte)))
}

/// The label that is the key of a row, or of a record in `pending`.
pub(super) fn label_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.try_into().ok()?))
}

/// A row of this key, whose length is a key's, and this payload.
pub(super) fn row_of(key: &[u8], payload: &[u8]) -> Vec<u8> {
    let len = key.len() as u16;
    [&len.to_le_bytes(), key, payload].concat()
}

/// Bytes of such a row.
pub(super) fn row_len(key: &[u8], payload: &[u8]) -> usize {
    KEY_LEN + key.len() + payload.len()
}

/// Key and payload of a row.
pub(super) fn row(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<KEY_LEN>()?;
    rest.split_at_checked(u16::from_le_bytes(*len).into())
}

/// What `pending` knows of a vector that has no row.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pending<'b> {
    /// It is coming: it may be in the index. Its bytes; none where it comes with many others, of which each is
    /// looked for among all vectors (`settle.rs`).
    Coming(&'b [u8]),
    /// It is going: it may be in the index still, in this node.
    Going(NodeId),
}

impl Pending<'_> {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Pending::Coming(vector) => [&[COMING], *vector].concat(),
            Pending::Going(node) => [&[GOING][..], &node_bytes(*node)].concat(),
        }
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Pending<'_>> {
        match bytes.split_first()? {
            (&COMING, vector) => Some(Pending::Coming(vector)),
            (&GOING, node) => Some(Pending::Going(node_of(node)?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        let node = NodeId::from_bits(0x12_3456_789a).unwrap();
        let place = Place { label: 0x0102_0304_0506_0708, node };
        assert_eq!(Place::from_bytes(&place.to_bytes()), Some(place));
        let row_bytes = row_of(b"key", b"payload");
        assert_eq!(row(&row_bytes), Some((&b"key"[..], &b"payload"[..])));
        for pending in [Pending::Coming(b"vector"), Pending::Going(node)] {
            assert_eq!(Pending::from_bytes(&pending.to_bytes()).as_ref(), Some(&pending));
        }
        assert_eq!(label_of(&7_u64.to_be_bytes()), Some(7));
    }

    #[test]
    fn what_is_cut_off_is_no_record() {
        let node = NodeId::from_bits(1 << 9).unwrap();
        let place = Place { label: 1, node }.to_bytes();
        (0..place.len()).for_each(|len| assert_eq!(Place::from_bytes(&place[..len]), None));
        assert_eq!(Place::from_bytes(&[0; 13]), None, "no node has this number");
        let row_bytes = row_of(b"key", b"");
        (0..row_bytes.len()).for_each(|len| assert_eq!(row(&row_bytes[..len]), None));
        let going = Pending::Going(node).to_bytes();
        (0..going.len()).for_each(|len| assert_eq!(Pending::from_bytes(&going[..len]), None));
        assert_eq!(Pending::from_bytes(&[3, 1]), None);
        assert_eq!(label_of(&[0; 7]), None);
    }
}
