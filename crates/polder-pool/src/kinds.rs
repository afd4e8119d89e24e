//! What the pool must know of the pages of each kind: how to check one that came from the device,
//! and where its links are.
//!
//! Structures register their kinds when a pool is opened. Checking bytes before anyone else sees
//! them is what lets all later code rely on a page's offsets; visiting links is for whoever must
//! follow or rewrite them without knowing the structure (a check of the whole store, unswizzling).

use polder_format::{FormatError, PageHeader, PageKind};

use crate::bytes::PageRef;

/// One kind of page.
#[derive(Debug, Clone, Copy)]
pub struct KindOps {
    /// Which.
    pub kind: PageKind,
    /// For messages.
    pub name: &'static str,
    /// Layout versions that are understood.
    pub max_layout: u8,
    /// Checks that each offset and length in the page stays inside it.
    pub check: fn(PageRef<'_>) -> Result<(), &'static str>,
    /// Calls the visitor with the offset of each link in the page (null ones included).
    pub visit_links: fn(PageRef<'_>, &mut dyn FnMut(usize)),
}

/// The kinds that a pool knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct PageKinds {
    known: Vec<KindOps>,
}

impl PageKinds {
    /// These kinds, and the pool's own.
    pub(crate) fn new(kinds: &[KindOps]) -> PageKinds {
        PageKinds { known: [kinds, &crate::space::KINDS].concat() }
    }

    /// What is known of a kind.
    fn get(&self, kind: PageKind) -> Option<&KindOps> {
        self.known.iter().find(|known| known.kind == kind)
    }

    /// F8: whether the page is one that the structures can work with.
    pub(crate) fn check(&self, header: &PageHeader, page: PageRef<'_>) -> Result<(), FormatError> {
        let Some(kind) = self.get(header.kind) else {
            return Err(FormatError::Field {
                field: "kind of page",
                found: u64::from(header.kind.0),
                expected: "no such kind is known",
            });
        };
        if header.layout > kind.max_layout {
            return Err(FormatError::Field {
                field: "layout version",
                found: u64::from(header.layout),
                expected: "a newer version of Polder wrote this page",
            });
        }
        (kind.check)(page).map_err(FormatError::Broken)
    }
}
