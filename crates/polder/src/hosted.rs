//! Structures of others in a store: making them, opening them, and doing what they can do.

use std::any::Any as Value;
use std::fmt;
use std::sync::Arc;

use polder_pool::journal::Journal;
use polder_pool::{PoolError, Space, lock};
use polder_structure::Structure;

use crate::any::{Variant, dispatch};
use crate::durability::Durability;
use crate::engine::{Engine, HostedCore};
use crate::error::StoreError;
use crate::handle::Store;
use crate::quiesce::Entered;
use crate::registry::{Handle, Registered, Spaces};

/// A structure in a store, as [`Options::structure`](crate::Options::structure) has registered it.
/// Cheap to clone; keeps the store open.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use polder::{Options, Store};
/// use polder_hash::HashStructure;
///
/// let options = Options::new(dir.path().join("store")).structure::<HashStructure>();
/// let store = Store::open(options.memory_budget(16 << 20))?;
/// let words = store.open_structure::<HashStructure>("words")?;
/// words.write(|words| words.insert(b"dike", b"keeps the water out"))?;
/// let dike = words.read(|words| words.get(b"dike"))?;
/// assert_eq!(dike.as_deref(), Some(&b"keeps the water out"[..]));
/// assert_eq!(store.structures()?[0].structure, "polder.hash");
/// # Ok(())
/// # }
/// ```
pub struct Hosted<S: Structure> {
    name: String,
    handle: Arc<S::Handle>,
    store: Store,
    durability: Durability,
}

impl<S: Structure> Clone for Hosted<S> {
    fn clone(&self) -> Hosted<S> {
        Hosted {
            name: self.name.clone(),
            handle: Arc::clone(&self.handle),
            store: self.store.clone(),
            durability: self.durability,
        }
    }
}

impl<S: Structure> fmt::Debug for Hosted<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hosted({}: {})", self.name, S::NAME)
    }
}

impl<S: Structure> Hosted<S> {
    /// What the catalogue calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The store that it belongs to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The same structure, whose writes by this handle are durable as asked here.
    pub fn with_durability(&self, durability: Durability) -> Hosted<S> {
        if let Durability::Periodic(period) = durability {
            dispatch!(&self.store.engine, engine => engine.log().sync_within(period));
        }
        Hosted { durability, ..self.clone() }
    }

    /// Does something with the structure that changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Closed`], [`StoreError::Dropped`], those of reading pages, and the structure's own
    /// as [`StoreError::Structure`].
    pub fn read<R, E: Into<PoolError>>(
        &self,
        operation: impl FnOnce(&S::Handle) -> Result<R, E>,
    ) -> Result<R, StoreError> {
        dispatch!(&self.store.engine, engine => engine.quiesce.check_open())?;
        operation(&self.handle).map_err(|error| self.error(error))
    }

    /// Does something with the structure that may change it, and waits until that is durable, if it is
    /// to be: with all that was logged before. It may read the store, and not write to it otherwise
    /// ([`StoreError::Nested`]).
    ///
    /// # Errors
    /// As [`Hosted::read`], and those of writing. [`StoreError::NotDurable`]: it was done.
    pub fn write<R, E: Into<PoolError>>(
        &self,
        operation: impl FnOnce(&S::Handle) -> Result<R, E>,
    ) -> Result<R, StoreError> {
        let pass = dispatch!(&self.store.engine, engine => engine.quiesce.enter())?;
        let result = operation(&self.handle).map_err(|error| self.error(error))?;
        self.commit(pass)?;
        Ok(result)
    }

    /// Ends what was done since the pass was given, and waits until it is durable, if it is to be.
    fn commit(&self, pass: Entered<'_>) -> Result<(), StoreError> {
        dispatch!(&self.store.engine, engine => {
            let end = engine.log().end();
            drop(pass);
            engine.commit(end, self.durability)
        })
    }

    #[cold]
    fn error(&self, error: impl Into<PoolError>) -> StoreError {
        StoreError::of_pool(&self.name, error.into())
    }
}

/// A structure in a store, as [`Store::structures`] lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StructureInfo {
    /// What the catalogue calls it.
    pub name: String,
    /// Which structure it is: its [`Structure::NAME`].
    pub structure: String,
    /// Whether that was registered when the store was opened.
    pub is_registered: bool,
}

/// Structures beside the store's tables; they have their names in common.
impl Store {
    /// Makes an empty structure with its default options; most have none.
    ///
    /// # Errors
    /// As [`Store::create_structure_with`].
    pub fn create_structure<S: Structure<Options: Default>>(
        &self,
        name: &str,
    ) -> Result<Hosted<S>, StoreError> {
        self.create_structure_with(name, &S::Options::default())
    }

    /// Makes an empty structure with options, which it keeps.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use polder::{Options, Store};
    /// use polder_vector::{ElementKind, HnswOptions, Metric, Search, VectorShape, VectorStructure};
    ///
    /// let options = || Options::new(dir.path().join("store")).structure::<VectorStructure>();
    /// let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    /// # let options = || options().memory_budget(16 << 20);
    /// let store = Store::open(options())?;
    /// let new = HnswOptions::new(shape).into();
    /// let places = store.create_structure_with::<VectorStructure>("places", &new)?;
    /// let gent = places.write(|places| places.insert(1, (&[51.05_f32, 3.73]).into()))?;
    /// let delft = places.write(|places| places.insert(2, (&[52.01_f32, 4.36]).into()))?;
    /// store.close()?;
    ///
    /// let store = Store::open(options())?;
    /// let places = store.structure::<VectorStructure>("places")?;
    /// let search = |query: &[f32]| {
    ///     places.read(|places| places.search(query.into(), &Search::new(1, 50)))
    /// };
    /// assert_eq!(search(&[51.0, 4.0])?.found[0].node, gent);
    /// places.write(|places| places.remove(1, gent))?;
    /// assert_eq!(search(&[51.0, 4.0])?.found[0].node, delft);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Unregistered`]; [`StoreError::TableExists`] and [`StoreError::OtherStructure`] if
    /// the name is taken; [`StoreError::TableName`]; [`StoreError::Structure`] if the structure cannot be
    /// with these options; and those of writing.
    pub fn create_structure_with<S: Structure>(
        &self,
        name: &str,
        options: &S::Options,
    ) -> Result<Hosted<S>, StoreError> {
        self.hosted(
            name,
            dispatch!(&self.engine, engine => {
                let registered = engine.registered(name, S::NAME);
                registered.and_then(|of| engine.create_structure(name, of, options))
            })?,
        )
    }

    /// A structure that exists.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`], [`StoreError::OtherStructure`], [`StoreError::Unregistered`], and
    /// those of reading.
    pub fn structure<S: Structure>(&self, name: &str) -> Result<Hosted<S>, StoreError> {
        self.hosted(
            name,
            dispatch!(&self.engine, engine => {
                engine.registered(name, S::NAME).and_then(|of| engine.structure(name, of))
            })?,
        )
    }

    /// A structure that exists, or is made now, with its default options. (One that must be given options
    /// is made by [`Store::create_structure_with`].)
    ///
    /// # Errors
    /// As [`Store::structure`] and [`Store::create_structure`].
    pub fn open_structure<S: Structure<Options: Default>>(
        &self,
        name: &str,
    ) -> Result<Hosted<S>, StoreError> {
        loop {
            match self.structure(name) {
                Err(StoreError::NoSuchTable { .. }) => {}
                found => return found,
            }
            match self.create_structure(name) {
                Err(StoreError::TableExists { .. }) => {}
                made => return made,
            }
        }
    }

    /// Drops a structure and all that is in it, registered or not. A caller that uses it meanwhile gets
    /// [`StoreError::Dropped`].
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`], [`StoreError::OtherStructure`] for a table, and those of reading and
    /// writing.
    pub fn drop_structure(&self, name: &str) -> Result<(), StoreError> {
        dispatch!(&self.engine, engine => engine.drop_structure(name))
    }

    /// All structures but tables, in the order of their names.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn structures(&self) -> Result<Vec<StructureInfo>, StoreError> {
        dispatch!(&self.engine, engine => engine.structures())
    }

    fn hosted<S: Structure>(&self, name: &str, handle: Handle) -> Result<Hosted<S>, StoreError> {
        // Of two structures of one name the one that was registered is open.
        let handle = handle.downcast_ref::<Arc<S::Handle>>().cloned().ok_or_else(|| {
            StoreError::Unregistered { name: name.to_string(), structure: S::NAME.to_string() }
        })?;
        let (name, durability) = (name.to_string(), self.durability());
        Ok(Hosted { name, handle, store: self.clone(), durability })
    }
}

impl<T: Variant> Engine<T> {
    fn registered(
        &self,
        name: &str,
        structure: &str,
    ) -> Result<&'static dyn Registered, StoreError> {
        self.registry.find(structure).ok_or_else(|| StoreError::Unregistered {
            name: name.to_string(),
            structure: structure.to_string(),
        })
    }

    pub(crate) fn create_structure(
        &self,
        name: &str,
        structure: &'static dyn Registered,
        options: &dyn Value,
    ) -> Result<Handle, StoreError> {
        let _pass = self.quiesce.enter()?;
        let _ddl = self.ddl.lock();
        let space = self.create_named(name, structure, options)?;
        self.keep_hosted(name, space, structure)
    }

    fn structure(
        &self,
        name: &str,
        structure: &'static dyn Registered,
    ) -> Result<Handle, StoreError> {
        self.quiesce.check_open()?;
        let _ddl = self.ddl.lock();
        let record =
            self.record(name)?.ok_or_else(|| StoreError::NoSuchTable { name: name.to_string() })?;
        record.check_is(name, structure.name())?;
        if let Some(open) = lock(&self.hosted).get(name) {
            return Ok(Arc::clone(&open.handle));
        }
        let space = self.pool.open_space(record.space);
        let space = space.map_err(|error| StoreError::of_pool(name, error))?;
        self.keep_hosted(name, space, structure)
    }

    /// Opens a structure for all that will ask for it. The caller holds `ddl`.
    fn keep_hosted(
        &self,
        name: &str,
        space: Space<T>,
        structure: &dyn Registered,
    ) -> Result<Handle, StoreError> {
        let Some(guest) = structure.hosted() else {
            let (name, structure) = (name.to_string(), structure.name().to_string());
            return Err(StoreError::Unregistered { name, structure });
        };
        let handle = guest.open(T::wrap::<Spaces>(space.clone()));
        let handle = handle.map_err(|error| StoreError::of_pool(name, error))?;
        let core = HostedCore { space, handle: Arc::clone(&handle) };
        lock(&self.hosted).insert(name.to_string(), Arc::new(core));
        Ok(handle)
    }

    fn drop_structure(&self, name: &str) -> Result<(), StoreError> {
        let _pass = self.quiesce.enter()?;
        let _ddl = self.ddl.lock();
        let record =
            self.record(name)?.ok_or_else(|| StoreError::NoSuchTable { name: name.to_string() })?;
        if record.lodger.name() == self.registry.tables().name() {
            record.check_is(name, "structure")?;
        }
        let open = lock(&self.hosted).get(name).map(|open| open.space.clone());
        let space = match open {
            Some(space) => space,
            None => {
                let space = self.pool.open_space(record.space);
                space.map_err(|error| StoreError::of_pool(name, error))?
            }
        };
        let removed = self.remove_record(name)?;
        lock(&self.hosted).remove(name);
        self.drop_space(&space, removed)
    }

    fn structures(&self) -> Result<Vec<StructureInfo>, StoreError> {
        let tables = self.registry.tables().name();
        let others = self.records()?.into_iter().filter(|(_, of)| of.lodger.name() != tables);
        let info = others.map(|(name, record)| {
            let structure = record.lodger.to_string();
            let is_registered = self.registry.find(&structure).is_some();
            StructureInfo { name, structure, is_registered }
        });
        Ok(info.collect())
    }
}
