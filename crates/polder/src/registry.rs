//! The structures that a store knows: its own tables, and those that were registered for it.
//!
//! What the store does with a space (making what lies in it, checking it) goes through here, for tables
//! as for structures of others. What tables have beside that, batches, counts and a salvage by keys and
//! fences, is the store's own.

use std::any::Any as Value;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use polder_format::PageKind;
use polder_pool::bytes::{PageBuf, PageRef};
use polder_pool::{KindOps, PoolError, Space, Translation};
use polder_structure::{Report, Structure};
use polder_tree::{TREE_KINDS, Tree, TreeError};

use crate::any::{Any, Family, dispatch};
use crate::catalogue::{Lodger, MAX_KINDS, MAX_STRUCTURE_BYTES, TABLE_NAME};
use crate::error::OptionsError;

/// What the names of structures begin with whose kinds are Polder's.
const OWN: &str = "polder.";

/// Spaces of a pool, for each translation.
pub(crate) struct Spaces;

impl Family for Spaces {
    type Of<T: Translation> = Space<T>;
}

/// The handle of a structure, of a type that its registration knows: an `Arc<S::Handle>`.
pub(crate) type Handle = Arc<dyn Value + Send + Sync>;

/// A structure that is registered.
pub(crate) trait Registered: Send + Sync {
    fn name(&self) -> &'static str;
    fn kinds(&self) -> &'static [KindOps];
    /// Whether the log counts its entries.
    fn counts_entries(&self) -> bool;
    /// Makes an empty one in a new space, with options of the type that the registration knows, a
    /// `S::Options`; tables have none.
    fn create(&self, space: &Any<Spaces>, options: &dyn Value) -> Result<(), PoolError>;
    fn check(
        &self,
        space: &Any<Spaces>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Report, PoolError>;
    /// What the store has no functions of its own for; none for tables.
    fn hosted(&self) -> Option<&dyn Guest>;

    fn lodger(&self) -> Lodger {
        match self.hosted() {
            None => Lodger::Own,
            Some(_) => Lodger::Structure {
                name: self.name().to_string(),
                kinds: self.kinds().iter().map(|kind| kind.kind.0).collect(),
            },
        }
    }
}

/// What the store asks of structures of others.
#[cfg_attr(not(feature = "tools"), allow(dead_code))]
pub(crate) trait Guest {
    fn open(&self, space: Any<Spaces>) -> Result<Handle, PoolError>;
    /// The options that it was made with, as `pages` tell them, of which it looks at as many as it needs.
    fn options(&self, pages: &mut dyn Iterator<Item = PageBuf>) -> Option<Box<dyn Value>>;
    fn entries(&self, page: PageRef<'_>, entry: &mut dyn FnMut(&[u8], &[u8]));
    fn restore(&self, handle: &Handle, key: &[u8], value: &[u8]) -> Result<(), PoolError>;
}

impl fmt::Debug for dyn Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The store's own tables.
struct Tables;

impl Registered for Tables {
    fn name(&self) -> &'static str {
        TABLE_NAME
    }

    fn kinds(&self) -> &'static [KindOps] {
        &TREE_KINDS
    }

    fn counts_entries(&self) -> bool {
        true
    }

    fn create(&self, space: &Any<Spaces>, _: &dyn Value) -> Result<(), PoolError> {
        dispatch!(space, space => Tree::create(space.clone()).map(drop).map_err(of_tree))
    }

    fn check(
        &self,
        space: &Any<Spaces>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Report, PoolError> {
        dispatch!(space, space => Tree::open(space.clone()).check(progress).map_err(of_tree))
    }

    fn hosted(&self) -> Option<&dyn Guest> {
        None
    }
}

fn of_tree(error: TreeError) -> PoolError {
    match error {
        TreeError::Pool(error) => error,
        other => PoolError::of_structure(other),
    }
}

/// A structure, by its type.
struct Of<S>(PhantomData<fn() -> S>);

impl<S: Structure> Of<S> {
    const IT: &'static dyn Registered = &Of::<S>(PhantomData);
}

/// The registration of a structure.
pub(crate) fn registered<S: Structure>() -> &'static dyn Registered {
    Of::<S>::IT
}

impl<S: Structure> Registered for Of<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn kinds(&self) -> &'static [KindOps] {
        S::KINDS
    }

    fn counts_entries(&self) -> bool {
        S::COUNTS_ENTRIES
    }

    fn create(&self, space: &Any<Spaces>, options: &dyn Value) -> Result<(), PoolError> {
        let Some(options) = options.downcast_ref() else {
            let what = "another structure is registered under its name, with other options";
            return Err(PoolError::of_structure(what));
        };
        dispatch!(space, space => S::create(space, options))
    }

    fn check(
        &self,
        space: &Any<Spaces>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Report, PoolError> {
        dispatch!(space, space => S::check(space, progress))
    }

    fn hosted(&self) -> Option<&dyn Guest> {
        Some(self)
    }
}

impl<S: Structure> Guest for Of<S> {
    fn open(&self, space: Any<Spaces>) -> Result<Handle, PoolError> {
        let handle = dispatch!(space, space => S::open(space))?;
        Ok(Arc::new(handle))
    }

    fn options(&self, pages: &mut dyn Iterator<Item = PageBuf>) -> Option<Box<dyn Value>> {
        let none: Box<dyn Value> = Box::new(());
        if none.is::<S::Options>() {
            return Some(none);
        }
        S::options(pages).map(|options| Box::new(options) as Box<dyn Value>)
    }

    fn entries(&self, page: PageRef<'_>, entry: &mut dyn FnMut(&[u8], &[u8])) {
        S::entries(page, entry);
    }

    fn restore(&self, handle: &Handle, key: &[u8], value: &[u8]) -> Result<(), PoolError> {
        match handle.downcast_ref::<Arc<S::Handle>>() {
            Some(handle) => S::restore(handle, key, value),
            None => Ok(()),
        }
    }
}

/// The structures that a store knows.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    /// Tables first.
    known: Vec<&'static dyn Registered>,
}

impl Default for Registry {
    fn default() -> Registry {
        let known: Vec<&'static dyn Registered> = vec![
            &Tables,
            // Of collections.
            #[cfg(feature = "vector")]
            registered::<polder_vector::VectorStructure>(),
        ];
        Registry { known }
    }
}

impl Registry {
    /// Adds a structure; the same one again is no harm.
    pub(crate) fn add(&mut self, structure: &'static dyn Registered) {
        let numbers = |of: &dyn Registered| of.kinds().iter().map(|k| k.kind).collect::<Vec<_>>();
        let is_known = self.find(structure.name());
        if is_known.is_none_or(|known| numbers(known) != numbers(structure)) {
            self.known.push(structure);
        }
    }

    /// The store's own tables.
    pub(crate) fn tables(&self) -> &'static dyn Registered {
        &Tables
    }

    /// The structure of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&'static dyn Registered> {
        self.known.iter().copied().find(|known| known.name() == name)
    }

    /// The structure that has pages of this kind.
    pub(crate) fn of_kind(&self, kind: PageKind) -> Option<&'static dyn Registered> {
        let has = |known: &&dyn Registered| known.kinds().iter().any(|known| known.kind == kind);
        self.known.iter().copied().find(has)
    }

    /// The structure of others that has pages of this kind.
    #[cfg(feature = "tools")]
    pub(crate) fn guest_of(&self, kind: PageKind) -> Option<&'static dyn Registered> {
        self.of_kind(kind).filter(|known| known.hosted().is_some())
    }

    /// Whether there is more than tables.
    pub(crate) fn has_others(&self) -> bool {
        self.known.len() > 1
    }

    /// Whether all of them can be in one store.
    pub(crate) fn validate(&self) -> Result<(), OptionsError> {
        for structure in self.known.iter().filter(|known| known.hosted().is_some()) {
            let (name, kinds) = (structure.name(), structure.kinds());
            let refuse = |why: String| Err(OptionsError::Structure { name: name.to_string(), why });
            if name.is_empty() || name.len() > MAX_STRUCTURE_BYTES || name == TABLE_NAME {
                let most = MAX_STRUCTURE_BYTES;
                return refuse(format!(
                    "its name must have 1 to {most} bytes, and not be `{TABLE_NAME}`"
                ));
            }
            if self.known.iter().filter(|known| known.name() == name).count() > 1 {
                return refuse("it is registered twice, with other kinds of pages".to_string());
            }
            if kinds.is_empty() || kinds.len() > MAX_KINDS {
                return refuse(format!("it must have 1 to {MAX_KINDS} kinds of pages"));
            }
            for kind in kinds.iter().map(|kind| kind.kind) {
                let first = PageKind::FIRST_OF_OTHERS;
                if kind.0 < first.0 && !name.starts_with(OWN) {
                    let (kind, first) = (kind.0, first.0);
                    return refuse(format!(
                        "its kind of pages {kind} is one of Polder's: choose one from {first} on"
                    ));
                }
                if let Some(other) = self.of_kind(kind).filter(|other| other.name() != name) {
                    let (kind, other) = (kind.0, other.name());
                    return refuse(format!(
                        "the structure `{other}` has the kind of pages {kind} as well: one of them needs another"
                    ));
                }
            }
        }
        Ok(())
    }

    /// A structure that is registered and cannot be told from one that is in the store.
    pub(crate) fn clash(&self, lodger: &Lodger) -> Option<(u8, &'static str)> {
        let Lodger::Structure { name, kinds } = lodger else { return None };
        let others = kinds.iter().filter_map(|kind| Some((*kind, self.of_kind(PageKind(*kind))?)));
        others.map(|(kind, known)| (kind, known.name())).find(|(_, known)| known != name)
    }

    /// The kinds of all structures, and for those that are not registered what lets their pages be kept
    /// as they are: they are loaded, written and recovered by what is logged of bytes, and nobody looks
    /// at what lies in them.
    pub(crate) fn kinds(&self) -> Vec<KindOps> {
        let mut kinds: Vec<KindOps> = Vec::new();
        for kind in self.known.iter().flat_map(|known| known.kinds()) {
            if !kinds.iter().any(|known| known.kind == kind.kind) {
                kinds.push(*kind);
            }
        }
        let own = [PageKind::HEAP, PageKind::HASH_NODE, PageKind::HASH_BUCKET];
        let vectors = PageKind::HNSW_META.0..=PageKind::IVF_CENTROIDS.0;
        let others = PageKind::FIRST_OF_OTHERS.0..=u8::MAX;
        for kind in own.into_iter().chain(vectors.chain(others).map(PageKind)) {
            if self.of_kind(kind).is_none() {
                let name = "page of a structure that is not registered";
                kinds.push(KindOps {
                    max_layout: u8::MAX,
                    ..KindOps::plain(kind, name, |_| Ok(()))
                });
            }
        }
        kinds
    }
}
