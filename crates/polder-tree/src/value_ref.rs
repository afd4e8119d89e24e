//! Values that are lent where they lie.
//!
//! The pages of a long value are written before they are linked and never change (`overflow.rs`), so that
//! the pool can lend them (`LOAN-2`): each is borrowed on the way along the chain, and the leaf that led
//! to the chain validates behind each loan. Values in leaves move with every change of their leaf: those
//! are copied. So are values that would take too much of the pool.

use std::fmt;
use std::thread;

use polder_pool::bytes::PageRef;
use polder_pool::{
    Borrower, Exhaustion, Loans, NotLent, Optimistic, PoolError, Space, Translation,
};

use crate::overflow::{ChainWalk, Header, Long, at};

/// A value that takes more than one page in so many of the pool is copied: others need frames, too.
const LENT_PART: u64 = 8;
/// Values up to this length, of those that are copied, need no allocation.
const SHORT_BYTES: usize = 62;
/// How often a page may be in other hands, or gone again, before the way begins anew.
const PAGE_TRIES: u32 = 64;

/// A value that was lent where it lies, or copied.
///
/// It holds no latch and keeps nobody waiting: its owner may do whatever it likes with the tree, and give it
/// to another thread. What it keeps is memory of the pool.
pub struct ValueRef<'t>(Kind<'t>);

enum Kind<'t> {
    Short { len: u8, bytes: [u8; SHORT_BYTES] },
    Copied(Vec<u8>),
    Lent { pages: Loans<'t>, len: u64 },
}

impl fmt::Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ValueRef({} bytes, lent: {})", self.len(), self.is_lent())
    }
}

impl From<Vec<u8>> for ValueRef<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        ValueRef(Kind::Copied(bytes))
    }
}

impl ValueRef<'_> {
    /// A copy of what lies in a leaf, which the caller validates.
    pub(crate) fn copy(page: PageRef<'_>, at: usize, len: usize) -> Self {
        if len <= SHORT_BYTES {
            let mut bytes = [0; SHORT_BYTES];
            page.copy_to(at, &mut bytes[..len]);
            return ValueRef(Kind::Short { len: len as u8, bytes });
        }
        let mut bytes = Vec::new();
        page.append_to(at, len, &mut bytes);
        ValueRef(Kind::Copied(bytes))
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::Short { len, .. } => usize::from(*len),
            Kind::Copied(bytes) => bytes.len(),
            Kind::Lent { len, .. } => *len as usize,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether these are the very bytes in the pool, and no copy.
    pub fn is_lent(&self) -> bool {
        matches!(self.0, Kind::Lent { .. })
    }

    /// The value, if it lies in one piece: that of a copy does, and that of a long value which fits in
    /// one page.
    #[inline]
    pub fn as_slice(&self) -> Option<&[u8]> {
        match &self.0 {
            Kind::Short { len, bytes } => bytes.get(..usize::from(*len)),
            Kind::Copied(bytes) => Some(bytes),
            Kind::Lent { pages, .. } if pages.len() == 1 => self.chunk(0),
            Kind::Lent { .. } => None,
        }
    }

    /// The pieces in which the value lies, in order; none of them is empty. A long value has one for each
    /// of its pages.
    #[inline]
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        (0..).map_while(|index| self.chunk(index))
    }

    #[inline]
    fn chunk(&self, index: usize) -> Option<&[u8]> {
        match &self.0 {
            Kind::Lent { pages, len } => {
                let page = pages.page(index)?;
                pages.prefetch(index + 1);
                let room = page.len() - at::BYTES;
                let left = (*len as usize).checked_sub(index * room)?;
                page.get(at::BYTES..at::BYTES + left.min(room))
            }
            _ if index > 0 => None,
            _ => self.as_slice().filter(|bytes| !bytes.is_empty()),
        }
    }

    /// A copy.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut copy = Vec::with_capacity(self.len());
        self.chunks().for_each(|chunk| copy.extend_from_slice(chunk));
        copy
    }

    /// Copies the value into the beginning of `out`, as much of it as there is room for. Gives how many
    /// bytes that are.
    pub fn copy_to(&self, out: &mut [u8]) -> usize {
        let mut at = 0;
        for chunk in self.chunks() {
            let len = chunk.len().min(out.len() - at);
            out[at..at + len].copy_from_slice(&chunk[..len]);
            at += len;
        }
        at
    }
}

/// How lending a value ended.
pub(crate) enum Lent<'p> {
    All(ValueRef<'p>),
    /// What led to it has changed, or gone.
    Changed,
    /// Lending it would take too much of the pool.
    TooMuch,
}

/// Lends the pages of the chain to which a leaf led.
pub(crate) fn lend_chain<'p, T: Translation>(
    space: &'p Space<T>,
    long: Long,
    leaf: &Optimistic<'_>,
) -> Result<Lent<'p>, PoolError> {
    let size = space.page_size().bytes();
    let pages = long.pages(size);
    if pages > space.most_pages_held() as u64 * 2 / LENT_PART {
        return Ok(Lent::TooMuch);
    }
    // An error of what the leaf does not lead to any more means nothing.
    let unless_changed = |error| match leaf.validate() {
        Ok(()) => Err(error),
        Err(_) => Ok(Lent::Changed),
    };
    let mut walk = match ChainWalk::new(long, size) {
        Ok(walk) => walk,
        Err(error) => return unless_changed(error),
    };
    let mut borrower = Borrower::new(space);
    borrower.reserve(pages as usize);
    while let Some(page) = walk.page() {
        if let Some(run) = walk.new_run() {
            borrower.prefetch_run(page, run);
        }
        let (mut tries, mut pin) = (0, None);
        loop {
            match borrower.borrow(page, leaf) {
                Ok(()) => break,
                Err(NotLent::TooMany) => return Ok(Lent::TooMuch),
                Err(_) if leaf.validate().is_err() || tries == PAGE_TRIES => {
                    return Ok(Lent::Changed);
                }
                Err(NotLent::Missing) => match borrower.load(page) {
                    // It stays until it is lent.
                    Ok(loaded) => pin = loaded,
                    Err(error) if error.is_exhausted() => return Ok(Lent::TooMuch),
                    Err(error) => return unless_changed(error),
                },
                Err(NotLent::Changed) => thread::yield_now(),
            }
            tries += 1;
        }
        drop(pin);
        let Some(borrowed) = borrower.last() else { return Ok(Lent::Changed) };
        if let Err(error) = walk.step(Header::of(borrowed)) {
            return unless_changed(error);
        }
    }
    // SAFETY: each is an overflow page (`ChainWalk::step`), which is written before it is linked, and
    // never again.
    let pages = unsafe { borrower.into_loans() };
    Ok(Lent::All(ValueRef(Kind::Lent { pages, len: long.len })))
}
