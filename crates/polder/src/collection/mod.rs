//! Collections: vectors with keys and payloads of the user's, in the vocabulary of tables. (With the
//! feature `vector`.)
//!
//! A collection is a vector index and three tables beside it, which have its name and an ending. They
//! are for it alone to write, rename and drop; to look into them is no harm.
//!
//! | name | what is in it |
//! |---|---|
//! | `docs` | the index: each vector with a label, which is a number |
//! | `docs.keys` | for each key its label, and where its vector lies |
//! | `docs.rows` | for each label its key and its payload: the *row* of the vector |
//! | `docs.pending` | for each vector without a row its label, and what is known of it |
//! | `docs.lost` | payloads whose vectors a salvage has not found; mostly there is no such table |
//!
//! An index is changed by many small changes of its own, which no batch can hold. So a vector is in the
//! index before it counts, and after it counted; what makes it count is a batch over the tables, with
//! whatever else is in that batch:
//!
//! ```text
//!                 pending: coming          pending: coming
//!   no vector --------------------> no vector ----------> vector
//!       ^                                                   |
//!       | pending: gone                     batch: row, key; pending: gone
//!       |                                                   v
//!     vector <------------------------------------------- vector
//!      pending: going     batch: row and key gone; pending: going
//! ```
//!
//! * `COLL-1` A vector counts if `rows` has its label, and no other does. Whoever finds a label in the index
//!   looks for its row.
//! * `COLL-2` A label is one vector's: it is given once while a store is open, and no label is given
//!   that a row, a record of `pending` or a vector has.
//! * `COLL-3` A vector of the index that has no row has a record in `pending`, from before it came until it
//!   has gone. So `pending` alone tells what a crash has left. The log keeps the order: what came first is
//!   there if what came later is.
//! * `COLL-4` A row, its key and its record in `pending` change by one batch, which expects that key and
//!   record are as they were seen.
//!
//! * `COLL-5` A record of a vector that comes with many others may say nothing of its bytes. Such a vector is
//!   looked for among all of the index, and so is any that a search in a graph has not seen: there may be no
//!   link to it.
//!
//! What a crash leaves between two steps is settled by the first change that is made after it
//! (`settle.rs`): a vector that was coming and one that was going both leave. Opening a collection only
//! reads. A change that fails takes its vector back; what cannot be taken back then stays in `pending` until
//! the store is opened again, and is found by nobody.
//!
//! | file | |
//! |---|---|
//! | `record.rs` | what lies in the tables |
//! | `keys.rs` | keys in order, and sets of them |
//! | `write.rs` | inserting and removing, alone and in batches |
//! | `load.rs` | inserting many by many threads |
//! | `runs.rs` | placing many at once |
//! | `link.rs` | linking them |
//! | `search.rs` | searches |
//! | `settle.rs` | what was cut off |
//! | `check.rs`, `repair.rs` | whether rows and vectors agree, and making them agree |

mod check;
mod keys;
mod link;
mod load;
mod record;
mod repair;
mod runs;
mod search;
mod settle;
mod write;

use std::fmt;
use std::sync::Arc;

use polder_pool::lock;
use polder_structure::Structure;
use polder_vector::{IndexOptions, NewIndex, VectorBuf, VectorError, VectorIndex, VectorStructure};

use crate::any::dispatch;
use crate::catalogue::MAX_TABLE_NAME_BYTES;
use crate::durability::Durability;
use crate::error::StoreError;
use crate::handle::Store;
use crate::hosted::Hosted;
use crate::labels::Labels;
use crate::table::Table;
pub use check::CollectionReport;
pub use keys::{Entries, KeySet, Keys};
use record::{Place, label_of};
pub use repair::CollectionRepair;
pub use runs::Loaded;
pub use search::{CollectionProbe, Hit, Hits, Query};

const KEYS: &str = "keys";
const ROWS: &str = "rows";
const PENDING: &str = "pending";
const TABLES: [&str; 3] = [KEYS, ROWS, PENDING];
/// Of the longest name the tables have names that tables may have.
const MAX_NAME_BYTES: usize = MAX_TABLE_NAME_BYTES - 1 - PENDING.len();

/// Vectors, each with a key and a payload: those nearest to any vector, and any one by its key. Cheap to
/// clone; keeps the store open.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
/// use polder::vector::{ElementKind, HnswOptions, Metric, VectorShape};
/// use polder::Query;
///
/// let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
/// let towns = store.create_collection("towns", HnswOptions::new(shape))?;
/// towns.insert("Delft", &[52.01_f32, 4.36], "Zuid-Holland")?;
/// towns.insert("Gent", &[51.05_f32, 3.73], "Oost-Vlaanderen")?;
///
/// let nearest = towns.search(&[52.0_f32, 4.4], &Query::new(1))?.hits;
/// assert_eq!((&nearest[0].key[..], &nearest[0].payload[..]), (&b"Delft"[..], &b"Zuid-Holland"[..]));
/// let flemish = |_: &[u8], province: &[u8]| province.ends_with(b"Vlaanderen");
/// let nearest = towns.search(&[52.0_f32, 4.4], &Query::new(1).filter(&flemish))?.hits;
/// assert_eq!(nearest[0].key, b"Gent");
///
/// towns.remove("Gent")?;
/// assert_eq!(towns.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Collection {
    index: Hosted<VectorStructure>,
    keys: Table,
    rows: Table,
    pending: Table,
    labels: Arc<Labels>,
    durability: Durability,
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collection({})", self.name())
    }
}

/// Collections of vectors. (With the feature `vector`.)
impl Store {
    /// Makes an empty collection, whose vectors are as the options say, in one of three indexes. It keeps
    /// that.
    ///
    /// | made with | choose it | but |
    /// |---|---|---|
    /// | [`HnswOptions`] | if vectors fit in memory: its searches are the fastest there (`vector-lists`) | where they do not, each vector that is compared is read (`vector-steered`) |
    /// | [`VamanaOptions`], best with a sample ([`NewIndex::around`]) | if vectors do not fit in memory, but a few bits for each dimension do (`vector-beyond`) | inserts take about three times as long (`vector-steered`); it is not for bits |
    /// | [`IvfOptions`], with a sample ([`NewIndex::trained`]) | if vectors come and go fast beside few searches (`vector-lists`) | searches take several times as long (`vector-lists`); lists stay as they were trained, however the vectors change; how they do beyond memory was not measured |
    ///
    /// The names are of sections of `docs/results.md`. [`Collection::probe`] finds out how wide searches must
    /// be. Lists are trained when [`NewIndex::trained`] is called, before the store knows of them; that takes
    /// memory beside the store's budget for 64 vectors of each list. What a crash leaves of a collection
    /// that was being made is none, and the next one of its name takes it over.
    ///
    /// A vector lies in one page, in a graph with its links: pages of 4 KiB hold those of 964 dimensions of
    /// f32 with the 16 links that are the default of the first, of 920 with the 64 of the second, and of
    /// 1000 in lists; for longer ones the store is made with larger pages
    /// ([`Options::page_size`](crate::Options::page_size)).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// use polder::Query;
    /// use polder::vector::{ElementKind, IvfOptions, Metric, NewIndex, VectorShape};
    ///
    /// let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    /// let sample: Vec<[f32; 2]> = (0..500).map(|i| [(i % 25) as f32, (i / 25) as f32]).collect();
    /// let lists = NewIndex::trained(IvfOptions { shape, lists: 8 }, &sample, &mut |_| true)?;
    /// let points = store.create_collection("points", lists)?;
    /// points.insert("a", &[3.0_f32, 4.0], "")?;
    /// // Looked for in the two lists that are nearest.
    /// let nearest = points.search(&[2.0_f32, 4.0], &Query::new(1).width(2))?.hits;
    /// assert_eq!(nearest[0].key, b"a");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`HnswOptions`]: polder_vector::HnswOptions
    /// [`VamanaOptions`]: polder_vector::VamanaOptions
    /// [`IvfOptions`]: polder_vector::IvfOptions
    ///
    /// # Errors
    /// [`StoreError::TableExists`] and [`StoreError::OtherStructure`] if its name, or that of a table of
    /// it, is taken; [`StoreError::Structure`] for options that cannot be; [`StoreError::TableName`], and
    /// those of writing. Nothing of it is there then.
    pub fn create_collection(
        &self,
        name: &str,
        new: impl Into<NewIndex>,
    ) -> Result<Collection, StoreError> {
        self.create_collection_with(name, &new.into())
    }

    fn create_collection_with(&self, name: &str, new: &NewIndex) -> Result<Collection, StoreError> {
        self.check_may_change()?;
        if !(1..=MAX_NAME_BYTES).contains(&name.len()) {
            return Err(StoreError::TableName { len: name.len() });
        }
        let open = lock(&self.closer.labels);
        let tables = Collection::table_names(name);
        for table in &tables {
            // A creation that was cut off may have made it.
            match self.table(table) {
                Err(StoreError::NoSuchTable { .. }) => {}
                Ok(found) if found.is_empty() => {}
                Ok(_) => return Err(StoreError::TableExists { name: table.clone() }),
                Err(error) => return Err(error),
            }
        }
        // The index comes last, and goes last: a collection is there as long as it is.
        let mut made = Vec::new();
        let created = self
            .make_tables(&tables, &mut made)
            .and_then(|()| self.create_structure_with::<VectorStructure>(name, new).map(drop));
        if created.is_err() {
            made.iter().for_each(|table: &Table| drop(self.drop_table(table.name())));
        }
        created?;
        drop(open);
        self.collection(name)
    }

    /// A collection that exists.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`]; [`StoreError::OtherStructure`] if the name is not that of a
    /// collection; [`StoreError::NotWhole`], and those of reading.
    pub fn collection(&self, name: &str) -> Result<Collection, StoreError> {
        let mut open = lock(&self.closer.labels);
        let index = self.structure::<VectorStructure>(name)?.with_durability(Durability::None);
        let table = |ending| match self.table(&table_name(name, ending)) {
            Ok(table) => Ok(Some(table.with_durability(Durability::None))),
            Err(StoreError::NoSuchTable { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let (keys, rows, pending) = match (table(KEYS)?, table(ROWS)?, table(PENDING)?) {
            (Some(keys), Some(rows), Some(pending)) => (keys, rows, pending),
            (None, None, None) => return Err(not_a_collection(name)),
            _ => return Err(StoreError::NotWhole { name: name.to_string() }),
        };
        let labels = match open.get(name) {
            Some(labels) => Arc::clone(labels),
            None => {
                let last = |table: &Table| -> Result<Option<u64>, StoreError> {
                    Ok(table.last()?.and_then(|(label, _)| label_of(&label)))
                };
                let last = last(&rows)?.max(last(&pending)?);
                let labels = Arc::new(Labels::new(last.map_or(0, |last| last.saturating_add(1))));
                open.insert(name.to_string(), Arc::clone(&labels));
                labels
            }
        };
        let durability = self.durability();
        Ok(Collection { index, keys, rows, pending, labels, durability })
    }

    /// A collection that exists, or is made now, as [`Store::create_collection`] does; then the options of
    /// one that exists stay what they are.
    ///
    /// # Errors
    /// As [`Store::collection`] and [`Store::create_collection`].
    pub fn open_collection(
        &self,
        name: &str,
        new: impl Into<NewIndex>,
    ) -> Result<Collection, StoreError> {
        let new = new.into();
        loop {
            match self.collection(name) {
                Err(StoreError::NoSuchTable { .. }) => {}
                found => return found,
            }
            match self.create_collection_with(name, &new) {
                Err(StoreError::TableExists { name: taken }) if taken == name => {}
                made => return made,
            }
        }
    }

    /// Drops a collection and all that is in it, but for the table of what a salvage has not found. A
    /// caller that uses it meanwhile gets [`StoreError::Dropped`].
    ///
    /// # Errors
    /// [`StoreError::NoSuchTable`]; [`StoreError::OtherStructure`] if the name is not that of a
    /// collection; and those of writing. If one comes in the middle, to drop it again goes on.
    pub fn drop_collection(&self, name: &str) -> Result<(), StoreError> {
        self.check_may_change()?;
        let mut open = lock(&self.closer.labels);
        self.structure::<VectorStructure>(name)?;
        let names = self.tables()?;
        let tables = Collection::table_names(name);
        if !tables.iter().any(|table| names.binary_search(table).is_ok()) {
            return Err(not_a_collection(name));
        }
        for table in tables.iter().rev() {
            match self.drop_table(table) {
                Err(StoreError::NoSuchTable { .. }) => {}
                dropped => dropped?,
            }
        }
        self.drop_structure(name)?;
        open.remove(name);
        Ok(())
    }

    /// The names of all collections, in order.
    ///
    /// # Errors
    /// Those of reading the catalogue.
    pub fn collections(&self) -> Result<Vec<String>, StoreError> {
        let tables = self.tables()?;
        let has = |name: &str, ending| tables.binary_search(&table_name(name, ending)).is_ok();
        let indexes = self.structures()?.into_iter();
        let indexes = indexes.filter(|index| index.structure == VectorStructure::NAME);
        let is_one = |name: &String| TABLES.iter().all(|ending| has(name, ending));
        Ok(indexes.map(|index| index.name).filter(is_one).collect())
    }

    /// Makes those of these tables that are not there.
    fn make_tables(&self, names: &[String], made: &mut Vec<Table>) -> Result<(), StoreError> {
        for name in names {
            match self.create_table(name) {
                Err(StoreError::TableExists { .. }) => {}
                created => made.push(created?),
            }
        }
        Ok(())
    }

    /// Whether this thread may wait for those that write: it is not in the closure of an update, and the
    /// store is open to write.
    fn check_may_change(&self) -> Result<(), StoreError> {
        dispatch!(&self.engine, engine => engine.quiesce.enter().map(drop))
    }
}

/// The name of a table of a collection.
fn table_name(collection: &str, ending: &str) -> String {
    format!("{collection}.{ending}")
}

fn not_a_collection(name: &str) -> StoreError {
    StoreError::OtherStructure {
        name: name.to_string(),
        found: VectorStructure::NAME.to_string(),
        wanted: "collection".to_string(),
    }
}

/// What is in a collection.
impl Collection {
    /// Its name.
    pub fn name(&self) -> &str {
        self.index.name()
    }

    /// The tables that a collection of this name has beside its index (`docs/format.md`): among the store's,
    /// and of no use by themselves.
    ///
    /// ```
    /// let tables = polder::Collection::table_names("docs");
    /// assert_eq!(tables, ["docs.keys", "docs.rows", "docs.pending"]);
    /// ```
    pub fn table_names(name: &str) -> [String; 3] {
        TABLES.map(|ending| table_name(name, ending))
    }

    /// The store that it belongs to.
    pub fn store(&self) -> &Store {
        self.index.store()
    }

    /// What its vectors are, and how its index is made.
    ///
    /// # Errors
    /// [`StoreError::Closed`] and [`StoreError::Dropped`].
    pub fn options(&self) -> Result<IndexOptions, StoreError> {
        self.read(|index| Ok(index.options()))
    }

    /// The same collection, whose writes by this handle are durable as asked here.
    pub fn with_durability(&self, durability: Durability) -> Collection {
        // It says to the log what a period asks for.
        let _ = self.index.with_durability(durability);
        Collection { durability, ..self.clone() }
    }

    /// How many vectors there are. Writes that are under way may be counted or not.
    pub fn len(&self) -> u64 {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the pages of the index; those of keys and payloads are in the statistics of the tables.
    ///
    /// # Errors
    /// Those of reading.
    pub fn index_bytes(&self) -> Result<u64, StoreError> {
        self.read(|index| index.size_bytes())
    }

    /// Whether there is a vector with this key.
    ///
    /// # Errors
    /// Those of reading.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        self.keys.contains_key(key)
    }

    /// The vector of a key, and its payload.
    ///
    /// # Errors
    /// Those of reading. [`StoreError::Corrupt`] if key, row and vector do not agree.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<(VectorBuf, Vec<u8>)>, StoreError> {
        self.whole(key.as_ref(), |place| {
            let vector = self.read(|index| index.get(place.label, place.node))?;
            let payload = self.row(place.label, |_, payload| payload.to_vec())?;
            Ok(vector.zip(payload))
        })
    }

    /// The payload of a key.
    ///
    /// # Errors
    /// As [`Collection::get`].
    pub fn payload(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
        self.whole(key.as_ref(), |place| self.row(place.label, |_, payload| payload.to_vec()))
    }

    /// What `read` reads of a key, where that is there.
    fn whole<R>(
        &self,
        key: &[u8],
        read: impl Fn(Place) -> Result<Option<R>, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        let mut seen = None;
        loop {
            let Some((version, place)) = self.place(key)? else { return Ok(None) };
            match read(place)? {
                Some(whole) => return Ok(Some(whole)),
                // It is the same as before: nobody has changed it meanwhile.
                None if seen == Some(version) => {
                    return Err(self.broken("a key has no row, or no vector"));
                }
                None => seen = Some(version),
            }
        }
    }

    /// Where the vector of a key is, and the version word of that.
    fn place(&self, key: &[u8]) -> Result<Option<(u64, Place)>, StoreError> {
        let place = self.keys.get_versioned_with(key, |version, bytes| {
            Place::from_bytes(bytes).map(|place| (version, place))
        })?;
        place.map(|place| place.ok_or_else(|| self.broken("a key has no place"))).transpose()
    }

    /// What `see` makes of the key and the payload of a row, if it is there (`COLL-1`).
    fn row<R>(
        &self,
        label: u64,
        see: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let row = self.rows.get_with(label.to_be_bytes(), |row| {
            record::row(row).map(|(key, payload)| see(key, payload))
        })?;
        row.map(|row| row.ok_or_else(|| self.broken("a row has no key"))).transpose()
    }

    fn read<R>(
        &self,
        read: impl FnOnce(&(dyn VectorIndex + 'static)) -> Result<R, VectorError>,
    ) -> Result<R, StoreError> {
        self.index.read(read)
    }

    #[cold]
    fn broken(&self, what: &'static str) -> StoreError {
        StoreError::Corrupt { table: self.name().to_string(), source: what.into() }
    }
}
