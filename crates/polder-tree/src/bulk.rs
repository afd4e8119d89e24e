//! Bulk load: an empty tree filled from sorted input, with full leaves, from left to right.
//!
//! Each level has one node in the making. When it is full its page is written and its separator
//! goes to the level above. Nothing is reachable until the topmost node becomes the root, so that a
//! load that fails leaves an empty tree.

use polder_format::log::Operation;
use polder_format::{Lsn, PageNo};
use polder_pool::journal::{full_page_image_bytes, group_bytes, mark_bytes};
use polder_pool::{AccessHint, NewPage, PoolError, Translation};
use polder_structure::levels::root;

use crate::error::TreeError;
use crate::node::{NodeBuilder, NodeMut, NodeRef};
use crate::reshape::push_node;
use crate::stored::Stored;
use crate::tree::Tree;

/// One level of the tree in the making.
struct Level<'p> {
    builder: NodeBuilder,
    /// Where the next node of this level goes.
    page: NewPage<'p>,
}

/// The pages that were made, as runs of first page and length, so that they can be freed if the
/// load fails.
#[derive(Default)]
struct Made {
    runs: Vec<(u64, u64)>,
}

impl Made {
    fn note(&mut self, page: PageNo) {
        match self.runs.last_mut() {
            Some((first, len)) if *first + *len == page.get() => *len += 1,
            _ => self.runs.push((page.get(), 1)),
        }
    }

    fn pages(&self) -> impl Iterator<Item = PageNo> {
        self.runs.iter().flat_map(|(first, len)| *first..first + len).filter_map(PageNo::new)
    }
}

/// A load that is under way.
struct Load<'m, 'p> {
    /// The leaves first.
    levels: Vec<Level<'p>>,
    made: &'m mut Made,
    /// The last key.
    last: Vec<u8>,
    /// How many entries there are.
    number: u64,
}

impl<T: Translation> Tree<T> {
    /// Fills an empty tree from ascending keys. Gives the number of entries, and up to where the log
    /// must be durable for them to be.
    ///
    /// `version` gives the version word of each entry.
    ///
    /// # Errors
    /// [`TreeError::NotEmpty`], [`TreeError::NotSorted`], and those of [`Tree::insert`]; the tree is
    /// as empty as before then.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
        version: impl FnMut() -> u64,
    ) -> Result<(u64, Lsn), TreeError> {
        self.check_empty()?;
        let mut made = Made::default();
        let loaded = self.load_sorted(entries, version, &mut made);
        if loaded.is_err() {
            made.pages().for_each(|page| self.space.free(page));
        }
        loaded
    }

    fn load_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
        mut version: impl FnMut() -> u64,
        made: &mut Made,
    ) -> Result<(u64, Lsn), TreeError> {
        let mut load = self.begin_load(made)?;
        for (key, value) in entries {
            self.push(&mut load, key.as_ref(), value.as_ref(), version())?;
        }
        let number = load.number;
        self.finish(load).map(|lsn| (number, lsn))
    }

    fn check_empty(&self) -> Result<(), TreeError> {
        let empty = self.space.run(AccessHint::Normal, |attempt| {
            let root = self.space.page(attempt, root())?;
            let node = NodeRef::new(root.page());
            let empty = node.is_leaf() && node.count() == 0;
            root.validate()?;
            Ok(empty)
        })?;
        if empty { Ok(()) } else { Err(TreeError::NotEmpty) }
    }

    fn begin_load<'m, 'p>(&'p self, made: &'m mut Made) -> Result<Load<'m, 'p>, TreeError> {
        let builder = NodeBuilder::leaves(self.space.page_size().bytes());
        let leaves = Level { builder, page: self.make(made)? };
        Ok(Load { levels: vec![leaves], made, last: Vec::new(), number: 0 })
    }

    /// The next entry, which must be behind the last one.
    fn push<'p>(
        &'p self,
        load: &mut Load<'_, 'p>,
        key: &[u8],
        value: &[u8],
        version: u64,
    ) -> Result<(), TreeError> {
        let Load { levels, made, last, number } = load;
        if *number > 0 && key <= last.as_slice() {
            return Err(TreeError::NotSorted { number: *number });
        }
        let stored = Stored::make(&self.space, key, value)?;
        if let Stored::Long(_, pages) = &stored {
            pages.iter().for_each(|page| made.note(*page));
        }
        levels[0].builder.push_entry(key, version, stored.as_new());
        while levels[0].builder.is_full() {
            self.emit(levels, 0, made)?;
        }
        last.clear();
        last.extend_from_slice(key);
        *number += 1;
        Ok(())
    }

    fn make(&self, made: &mut Made) -> Result<NewPage<'_>, TreeError> {
        let page = self.space.when_admitted_holding(|| self.space.create())?;
        made.note(page.id().page());
        Ok(page)
    }

    /// Writes the node in the making at `level`, and tells the level above of the next one.
    fn emit<'p>(
        &'p self,
        levels: &mut Vec<Level<'p>>,
        level: usize,
        made: &mut Made,
    ) -> Result<(), TreeError> {
        let next = self.make(made)?;
        let next_link = next.id().to_bits();
        let here = &mut levels[level];
        let link = here.page.id().to_bits();
        let separator = self.write(&here.page, true, |node| here.builder.emit(node, next_link))?;
        here.page = next;
        if level + 1 == levels.len() {
            let builder = NodeBuilder::inner(self.space.page_size().bytes(), level as u8 + 1, link);
            levels.push(Level { builder, page: self.make(made)? });
        }
        levels[level + 1].builder.push_child(&separator, next_link);
        while levels[level + 1].builder.is_full() {
            self.emit(levels, level + 1, made)?;
        }
        Ok(())
    }

    /// Writes what is left on each level; the topmost node is the root.
    fn finish<'p>(&'p self, load: Load<'_, 'p>) -> Result<Lsn, TreeError> {
        let Load { mut levels, made, number: entries, .. } = load;
        let mut level = 0;
        while level < levels.len() {
            if !levels[level].builder.fits_last() {
                self.emit(&mut levels, level, made)?;
            } else {
                level += 1;
            }
        }
        let Some(top) = levels.pop() else { return Ok(Lsn(0)) };
        for level in levels {
            self.write(&level.page, true, |node| level.builder.emit_last(node))?;
        }
        // The topmost node is made in its own page first, so that a tree that is no longer empty
        // can still be left as it is.
        self.write(&top.page, false, |node| top.builder.emit_last(node))?;
        let unused = top.page.id().page();
        let linked: Vec<PageNo> = made.pages().filter(|page| *page != unused).collect();
        let most = full_page_image_bytes(1, self.space.page_size())
            + group_bytes(1, 8)
            + mark_bytes(&linked);
        let installed = self.space.when_admitted_holding(|| {
            let mut change = self.space.change(most)?;
            self.space.run(AccessHint::Normal, |attempt| {
                let root = self.space.page(attempt, root())?;
                let mut root = attempt.upgrade(root)?;
                change.clear();
                change.mark(&self.space, attempt, &linked, true)?;
                let node = NodeRef::new(root.page());
                if !node.is_leaf() || node.count() > 0 {
                    return Ok(None);
                }
                let whole = top.page.latch()?;
                NodeMut::new(root.page_mut()).copy_content_from(NodeRef::new(whole.page()));
                push_node(&mut change, &mut root);
                change.push(root.id(), &Operation::Loaded { entries });
                Ok(Some(change.commit(&mut [&mut root])))
            })
        })?;
        let Some(lsn) = installed else { return Err(TreeError::NotEmpty) };
        self.space.free(unused);
        Ok(lsn)
    }

    /// Makes a node in a page that was just made; logs it unless it is only a draft. Only dropping
    /// the space can take the page away.
    fn write<R>(
        &self,
        page: &NewPage<'_>,
        is_final: bool,
        make: impl FnOnce(&mut NodeMut<'_>) -> R,
    ) -> Result<R, TreeError> {
        let most = if is_final { full_page_image_bytes(1, self.space.page_size()) } else { 0 };
        let mut change = self.space.change(most)?;
        let space = page.id().space();
        let mut guard = page.latch().map_err(|_| PoolError::Dropped { space })?;
        let result = make(&mut NodeMut::new(guard.page_mut()));
        if is_final {
            push_node(&mut change, &mut guard);
            change.commit(&mut [&mut guard]);
        } else {
            guard.set_unlogged();
        }
        Ok(result)
    }
}
