//! Moving the pages of a tree to the lowest numbers of its space.
//!
//! A node is found by its number, and tells the way to it: level and lower fence. It goes into a
//! new page with a lower number; in one group the links of its parent and of its left neighbour are
//! changed, the new page is marked as in use and the old one as free. A long value is found by its
//! record, because an overflow page does not tell whose it is: its whole chain is written anew, and
//! the record, whose version word stays, then leads to it (`CHAIN-1`).

use std::io::ErrorKind;

use polder_format::log::Operation;
use polder_format::{PageId, PageKind, PageNo};
use polder_pool::journal::{full_page_image_bytes, group_bytes};
use polder_pool::{AccessHint, Attempt, Change, NewPage, PoolError, Restart, Translation};
use polder_structure::Reshape;
use polder_structure::levels::descend;
use polder_structure::page::fail;

use super::{Between, CompactStep};
use crate::descent::{Target, TreePages};
use crate::error::TreeError;
use crate::node::{NodeMut, NodeRef, Value};
use crate::overflow::{Long, SeenChain, write_chain_before};
use crate::reshape::push_node;
use crate::tree::Tree;
use crate::way::leaf;

/// How often pages are moved in front of an end that others have moved on meanwhile.
const MOST_ROUNDS: u32 = 4;
/// Page numbers that are asked for at a time, at least.
const ENOUGH: usize = 512;
/// Pages and long values that may stay where they are because moving them failed; then it ends.
const MOST_FAILURES: u32 = 16;
/// How often a page that cannot be read is looked at.
const MOST_LOOKS: u32 = 3;
/// Pages that are asked for ahead.
const AHEAD: usize = 16;

/// What became of one page that was to be moved.
enum Moved {
    /// It lies at a lower number.
    Yes,
    /// No page in front of the limit is free.
    NoRoom,
    /// It is a page of a long value.
    IsLong,
    /// It was freed meanwhile, or cannot be moved.
    Stays,
}

/// What a page was seen to be.
enum Looked {
    Node(Seen),
    /// One of a long value.
    Long,
    /// It cannot be read, and is not in use.
    Free,
}

/// What leads to a node.
struct Seen {
    level: u8,
    lower: Option<Vec<u8>>,
}

/// A record with a long value.
struct LongRecord {
    key: Vec<u8>,
    chain: SeenChain,
}

/// What of the pages that must move was looked at.
struct Progress<'b, 'c> {
    done: u64,
    all: u64,
    between: &'b mut Between<'c>,
    failures: u32,
    /// The first failure.
    failed: Option<TreeError>,
}

impl Progress<'_, '_> {
    fn step(&mut self, pages: u64) -> bool {
        self.done = (self.done + pages).min(self.all);
        (self.between)(CompactStep::Moving, self.done, self.all)
    }

    /// What failed stays where it is, and the others are moved all the same: `None`.
    fn note<R>(&mut self, result: Result<R, TreeError>) -> Result<Option<R>, TreeError> {
        let error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) => self.failed.take().unwrap_or(error),
        };
        self.failures += 1;
        if self.failures > MOST_FAILURES {
            return Err(error);
        }
        self.failed = Some(error);
        Ok(None)
    }
}

impl<T: Translation> Tree<T> {
    /// Moves all pages to where they lie close together. False: it was stopped.
    pub(super) fn move_all(&self, between: &mut Between<'_>) -> Result<bool, TreeError> {
        let mut progress = Progress { done: 0, all: 0, between, failures: 0, failed: None };
        for _ in 0..MOST_ROUNDS {
            let limit = self.space.dense_end()?;
            (progress.done, progress.all) = (0, self.count_from(limit)?);
            if progress.all == 0 {
                break;
            }
            let (mut moved, mut long, mut from) = (0, 0, Some(limit));
            while let Some(at) = from {
                let pages = self.space.used_pages_from(at, ENOUGH)?;
                for (number, page) in pages.iter().enumerate() {
                    if number % AHEAD == 0 {
                        let next = pages.iter().skip(number + AHEAD).take(AHEAD);
                        self.space.load_ahead(next.copied());
                    }
                    let outcome = progress.note(self.move_node(*page, limit))?;
                    let outcome = outcome.unwrap_or(Moved::Stays);
                    moved += u64::from(matches!(outcome, Moved::Yes));
                    long += u64::from(matches!(outcome, Moved::IsLong));
                    if !progress.step(u64::from(!matches!(outcome, Moved::IsLong))) {
                        return Ok(false);
                    }
                }
                from = pages.last().and_then(|last| PageNo::new(last.get() + 1));
            }
            if long > 0 {
                match self.move_long_values(limit, long, &mut progress)? {
                    Some(pages) => moved += pages,
                    None => return Ok(false),
                }
            }
            if moved == 0 {
                break;
            }
        }
        progress.failed.map_or(Ok(true), Err)
    }

    /// How many pages are in use from this one on.
    fn count_from(&self, from: PageNo) -> Result<u64, TreeError> {
        let (mut count, mut from) = (0, Some(from));
        while let Some(at) = from {
            let pages = self.space.used_pages_from(at, ENOUGH)?;
            count += pages.len() as u64;
            from = pages.last().and_then(|last| PageNo::new(last.get() + 1));
        }
        Ok(count)
    }

    /// Moves a page in front of the limit, if it is a node.
    fn move_node(&self, page: PageNo, limit: PageNo) -> Result<Moved, TreeError> {
        let seen = match self.look_at(page)? {
            Looked::Node(seen) => seen,
            Looked::Long => return Ok(Moved::IsLong),
            Looked::Free => return Ok(Moved::Stays),
        };
        self.space.when_admitted(|| {
            let Some(new) = self.space.create_before(limit)? else { return Ok(Moved::NoRoom) };
            let number = new.id().page();
            let moved = self.move_to(page, &seen, &new);
            drop(new);
            match moved {
                Ok(Some(old)) => {
                    self.space.give_back(old);
                    Ok(Moved::Yes)
                }
                other => {
                    self.space.free(number);
                    other.map(|_| Moved::Stays)
                }
            }
        })
    }

    /// What a page is that was in use. What was freed may be read as anything, or not at all, and be
    /// in use again when that is asked: an error counts only if it comes each time.
    fn look_at(&self, page: PageNo) -> Result<Looked, TreeError> {
        let mut looks = MOST_LOOKS;
        loop {
            let looked = self.space.run(AccessHint::Scan, |attempt| {
                let guard = self.space.page(attempt, page)?;
                let node = NodeRef::new(guard.page());
                let looked = match node.kind() {
                    PageKind::OVERFLOW => Looked::Long,
                    _ => Looked::Node(Seen { level: node.level(), lower: node.lower_fence() }),
                };
                guard.validate()?;
                Ok(looked)
            });
            looks -= 1;
            match looked {
                Ok(looked) => return Ok(looked),
                Err(_) if !self.space.is_used(page)? => return Ok(Looked::Free),
                Err(error) if looks == 0 => return Err(error.into()),
                Err(_) => {}
            }
        }
    }

    /// Moves a node to a new page. Gives the old one, which is discarded; `None` if the node is no
    /// longer there.
    fn move_to<'p>(
        &'p self,
        page: PageNo,
        seen: &Seen,
        new: &NewPage<'p>,
    ) -> Result<Option<PageId>, TreeError> {
        // RESHAPE-2: nothing is latched.
        let size = self.space.page_size();
        let most = full_page_image_bytes(1, size) + group_bytes(8, 128);
        let mut change = self.space.change(most)?;
        Ok(self.space.run(AccessHint::Scan, |attempt| {
            change.clear();
            self.try_move(attempt, &mut change, page, seen, new)
        })?)
    }

    fn try_move<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut Change<'p>,
        page: PageNo,
        seen: &Seen,
        new: &NewPage<'p>,
    ) -> Result<Option<PageId>, Restart> {
        let space = &self.space;
        // 1. To the node and its parent, and to the left neighbour, which may have another one.
        let target = seen.lower.as_deref().map_or(Target::First, Target::Key);
        let place = descend::<TreePages, T>(space, attempt, target, seen.level)?;
        let node = place.page;
        let Some((parent, child)) = place.parent.filter(|_| node.id().page() == page) else {
            node.validate()?;
            return Ok(None);
        };
        if NodeRef::new(node.page()).lower_fence() != seen.lower {
            // The page was freed, and is another node by now.
            node.validate()?;
            return Ok(None);
        }
        let left = seen.lower.as_deref().map(Target::Before);
        let left = left.map(|target| descend::<TreePages, T>(space, attempt, target, seen.level));
        let left = left.transpose()?.map(|place| place.page);
        // 2. All are latched, the parent first, then from left to right (RESHAPE-1).
        let mut parent = TreePages::latch(space, attempt, parent)?;
        let left = left.map(|left| TreePages::latch(space, attempt, left));
        let mut left = left.transpose()?;
        let node = attempt.upgrade(node)?;
        let links_here = |left: &NodeRef<'_>| left.right_link() == node.id().to_bits();
        if let Some(left) = left.as_ref().filter(|left| !links_here(&NodeRef::new(left.page()))) {
            let what = "the right link of a node does not lead to the one behind it";
            return Err(fail(attempt, left.id(), what));
        }
        // 3. The new page is marked as in use, the old one as free.
        let mut made = new.latch()?;
        let marked = change.mark(space, attempt, &[made.id().page()], true);
        let marked = marked.and_then(|()| change.mark(space, attempt, &[page], false));
        // No latch is held while the next try is waited for.
        marked.inspect_err(|_| change.clear())?;
        // 4. The node is copied, and both links lead to the copy. Nothing fails any more.
        NodeMut::new(made.page_mut()).copy_content_from(NodeRef::new(node.page()));
        push_node(change, &mut made);
        let link = made.id().to_bits();
        let patch = |offset: usize, change: &mut Change<'p>, page: PageId| {
            let bytes = &link.to_le_bytes()[..];
            change.push(page, &Operation::Patch { offset: offset as u32, backed: 0, bytes });
        };
        let offset = NodeMut::new(parent.page_mut()).set_link(child, link);
        patch(offset, change, parent.id());
        let mut changed = vec![&mut *parent, &mut made];
        if let Some(left) = &mut left {
            NodeMut::new(left.page_mut()).set_right_link(link);
            patch(NodeRef::RIGHT_LINK_AT, change, left.id());
            changed.push(left);
        }
        change.commit(&mut changed);
        // 5. Discarding may wait for the device: no operation needs the old page any more.
        drop((left, made, parent));
        Ok(Some(space.discard(node)))
    }

    /// Writes long values anew of which a page lies behind the limit, until `pages` of those have
    /// moved. Gives how many have; `None`: it was stopped.
    fn move_long_values(
        &self,
        limit: PageNo,
        pages: u64,
        progress: &mut Progress<'_, '_>,
    ) -> Result<Option<u64>, TreeError> {
        self.space.begin_pass();
        let (mut moved, mut key) = (0, Some(Vec::new()));
        while let Some(at) = key.take_if(|_| moved < pages) {
            let (records, next) = self.long_records(&at)?;
            for record in records {
                let behind = progress.note(self.move_long(&record, limit))?.unwrap_or(0);
                moved += behind;
                if !progress.step(behind) {
                    return Ok(None);
                }
            }
            // Fences in a wrong order must not make it go on for ever.
            key = next.filter(|next| *next > at);
            if !progress.step(0) {
                return Ok(None);
            }
        }
        Ok(Some(moved))
    }

    /// The records with long values in the leaf for a key from there on, and where the next leaf
    /// begins.
    fn long_records(&self, key: &[u8]) -> Result<(Vec<LongRecord>, Option<Vec<u8>>), TreeError> {
        Ok(self.space.run(AccessHint::Scan, |attempt| {
            let leaf = leaf(&self.space, attempt, Target::Key(key))?;
            let node = NodeRef::new(leaf.page());
            let record = |slot| {
                let Value::Overflow { len, run, link } = node.value(slot) else { return None };
                let long = Long { len, run, link };
                let chain = SeenChain::new(&self.space, node.version(slot), long);
                Some(LongRecord { key: node.key(slot), chain })
            };
            let mut records: Vec<_> = (0..node.count()).filter_map(record).collect();
            let next = node.upper_fence();
            leaf.validate()?;
            // CHAIN-1: what was joined with a leaf that was looked at had its turn.
            records.retain(|record| record.key.as_slice() >= key);
            Ok((records, next))
        })?)
    }

    /// Writes a long value anew in front of the limit, if one of its pages lies behind that. Gives
    /// how many did.
    fn move_long(&self, record: &LongRecord, limit: PageNo) -> Result<u64, TreeError> {
        let LongRecord { key, chain: seen } = record;
        let mut value = Vec::new();
        let chain = self.chain_of(AccessHint::Scan, key, *seen, Some(&mut value))?;
        let pages = chain.map_or_else(Vec::new, |chain| chain.pages);
        let behind = pages.iter().filter(|page| **page >= limit).count() as u64;
        if behind == 0 {
            return Ok(0);
        }
        self.space.when_admitted(|| {
            let Some(new) = write_chain_before(&self.space, &value, limit)? else { return Ok(0) };
            match self.replace_chain(key, (seen.version, seen.long.link), new) {
                Ok(replaced) => Ok(if replaced { behind } else { 0 }),
                // To mark both chains takes more of the log than a change may.
                Err(error) if is_too_large(&error) => Ok(0),
                Err(error) => Err(error),
            }
        })
    }
}

/// Whether a change was refused because it is too large for the log: nothing was written then.
fn is_too_large(error: &TreeError) -> bool {
    let TreeError::Pool(PoolError::Journal { source }) = error else { return false };
    // With an error of the log's own within: that of a device has none.
    source.kind() == ErrorKind::QuotaExceeded && source.get_ref().is_some()
}
