//! Where in the pages of an index everything lies, and which options there can be.

use polder_format::{PAGE_HEADER_BYTES, PageKind, PageSize};
use polder_pool::AccessHint;

use super::code::code_bytes;
use crate::element::ElementKind;
use crate::error::VectorError;
use crate::node_id::{MOST_SLOTS, NodeId};
use crate::options::VamanaOptions;

/// Where in a page of either kind the places begin.
pub(super) const PLACES: usize = 64;
/// Where in a place begins what only one kind has.
pub(super) const OWN: usize = 16;
/// Where in an entry the code begins, and in a node the vector.
pub(super) const CODE: usize = OWN + 8;
pub(super) const VECTOR: usize = OWN + 16;
/// Where in the first page the centre begins.
pub(super) const CENTRE: usize = PAGE_HEADER_BYTES + 128;

/// Links of a node, at least and at most.
const LINKS: std::ops::RangeInclusive<usize> = 4..=200;
/// Vectors that an insert keeps in sight, at most.
const MOST_WIDTH: usize = 1 << 16;

/// How long an entry is, with a code of so many bytes.
pub(super) fn entry_bytes(code: usize) -> usize {
    CODE + code
}

/// How long a node is, with a vector of so many bytes.
pub(super) fn node_bytes(vector: usize, links: usize) -> usize {
    list_at(vector) + (NodeId::BYTES * links).next_multiple_of(8)
}

/// Where in a node the links begin.
#[inline(always)]
pub(super) fn list_at(vector: usize) -> usize {
    VECTOR + vector.next_multiple_of(8)
}

/// Where in the first page it lies how far a linking has come, of vectors of so many dimensions.
pub(super) fn linking_at(dimensions: usize) -> usize {
    (CENTRE + dimensions).next_multiple_of(8)
}

/// How much of the first page is used, of vectors of so many dimensions.
pub(super) fn meta_bytes(dimensions: usize) -> usize {
    linking_at(dimensions) + 8
}

/// What lies in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Codes,
    Nodes,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Codes, Kind::Nodes];

    /// How its pages are read. Nodes are many, and each is seldom come to: their pages leave memory before
    /// those of codes.
    pub(super) const fn hint(self) -> AccessHint {
        match self {
            Kind::Codes => AccessHint::Normal,
            Kind::Nodes => AccessHint::Scan,
        }
    }

    pub(super) fn of_page(self) -> PageKind {
        match self {
            Kind::Codes => PageKind::VAMANA_CODES,
            Kind::Nodes => PageKind::VAMANA_NODES,
        }
    }
}

/// Where in pages of an index everything lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    page: usize,
    pub(super) form: u64,
    /// Bytes of a vector, and of a code.
    pub(super) vector: usize,
    pub(super) code: usize,
    /// Links of a node, at most.
    pub(super) links: usize,
    pub(super) strides: [usize; 2],
}

impl Layout {
    /// Links of a node to its children, at most.
    pub(super) fn most_children(&self) -> usize {
        self.links / 2
    }

    /// How many places a page has.
    pub(super) fn slots(&self, kind: Kind) -> usize {
        ((self.page - PLACES) / self.strides[kind as usize]).min(MOST_SLOTS)
    }

    /// How many vectors an index of so many pages has, if these are full.
    pub(super) fn vectors_in(&self, pages: u64) -> f64 {
        // Pages that an entry and a node take.
        let of_one: f64 = Kind::ALL.iter().map(|kind| 1.0 / self.slots(*kind) as f64).sum();
        pages as f64 / of_one
    }
}

impl VamanaOptions {
    /// Where everything lies in pages of this size.
    ///
    /// # Errors
    /// If an option is not allowed, or vectors are too long.
    pub(super) fn layout(&self, size: PageSize) -> Result<Layout, VectorError> {
        let VamanaOptions { shape, links, insert_width, code_bits } = *self;
        shape.validate()?;
        if shape.element == ElementKind::Bit {
            return Err(VectorError::NoCodes);
        }
        let option = |what, given, least, most| match (least..=most).contains(&given) {
            true => Ok(()),
            false => Err(VectorError::Option { what, given, least, most }),
        };
        option("the number of links", links, *LINKS.start(), *LINKS.end())?;
        option("the width of inserts", insert_width, 1, MOST_WIDTH)?;
        if ![1, 2, 4].contains(&code_bits) {
            let what = "the number of bits of a code, a power of two,";
            return Err(VectorError::Option { what, given: code_bits, least: 1, most: 4 });
        }
        let (vector, code) = (shape.bytes(), code_bytes(shape.dimensions, code_bits));
        let byte = |byte: u8, place: u32| u64::from(byte) << (32 + 8 * place);
        let form = vector as u64
            | byte(links as u8, 0)
            | byte(shape.element.to_byte(), 1)
            | byte(shape.metric.to_byte(), 2)
            | byte(code_bits as u8, 3);
        let strides = [entry_bytes(code), node_bytes(vector, links)];
        let room = size.bytes() - PLACES;
        // What the first page has in front of the centre may be longer than a node without its vector.
        let meta = meta_bytes(shape.dimensions) - PLACES;
        match strides.into_iter().chain([meta]).max().filter(|bytes| *bytes > room) {
            Some(bytes) => Err(VectorError::NodeTooLong { bytes, room }),
            None => Ok(Layout { page: size.bytes(), form, vector, code, links, strides }),
        }
    }
}
