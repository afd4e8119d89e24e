//! The handle of an open store: what its clones, its tables and their ranges hold, and what it says
//! of the store. What is done with it stands in [`store`](crate::store).

#[cfg(feature = "vector")]
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(feature = "vector")]
use std::sync::Mutex;
use std::thread;

use polder_pool::waits;

use crate::any::{Any, dispatch};
use crate::durability::Durability;
use crate::families::Engines;
use crate::kind::TranslationKind;
#[cfg(feature = "vector")]
use crate::labels::Labels;

/// An open store. Cheap to clone; all clones are the same store.
///
/// Close it with [`Store::close`], which tells of errors. If the last handle (of the store, its
/// tables and ranges) goes without, that is tried as well, and an error goes unheard.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) engine: Any<Engines>,
    pub(crate) closer: Arc<Closer>,
}

/// What the clones of a handle have in common. Closes the store when the last of them goes.
#[derive(Debug)]
pub(crate) struct Closer {
    pub(crate) engine: Any<Engines>,
    pub(crate) path: PathBuf,
    /// Of each collection that was opened, by its name.
    #[cfg(feature = "vector")]
    pub(crate) labels: Mutex<HashMap<String, Arc<Labels>>>,
}

impl Drop for Closer {
    fn drop(&mut self) {
        dispatch!(&self.engine, engine => match engine.quiesce.is_forked() {
            // Its threads are not in this process, and its locks are the parent's: nothing of it
            // may go.
            true => std::mem::forget(Arc::clone(engine)),
            // In a waker, or where a future goes: this thread does not wait (WAIT-3).
            false if !waits::may_wait() => {
                let engine = Arc::clone(engine);
                // Where no thread starts nothing is written down: what is in the log is replayed.
                let _ = thread::Builder::new().spawn(move || engine.close());
            }
            // A caller that wants to hear of errors calls `close`. After that this does nothing.
            false => drop(engine.close()),
        });
    }
}

/// What the store was opened with.
impl Store {
    /// When writes are durable that do not choose for themselves.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// assert_eq!(store.durability(), polder::Durability::Sync);
    /// # Ok(())
    /// # }
    /// ```
    pub fn durability(&self) -> Durability {
        dispatch!(&self.engine, engine => engine.durability)
    }

    /// The directory of the store.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// assert_eq!(store.path(), dir.path().join("s"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> &Path {
        &self.closer.path
    }

    /// Size of all pages in bytes.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// assert_eq!(store.page_size(), 4096);
    /// # Ok(())
    /// # }
    /// ```
    pub fn page_size(&self) -> u32 {
        dispatch!(&self.engine, engine => engine.pool.page_size().bytes() as u32)
    }

    /// Longest key of a table in bytes: an eighth of a page.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use polder::{Options, Store};
    /// let options = Options::new(dir.path().join("s")).memory_budget(8 << 20).page_size(4096);
    /// assert_eq!(Store::open(options)?.max_key_bytes(), 512);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_key_bytes(&self) -> usize {
        polder_tree::node::max_key_len(self.page_size() as usize)
    }

    /// Whether it was opened to read ([`OpenMode::ReadOnly`](crate::OpenMode::ReadOnly)).
    pub fn is_read_only(&self) -> bool {
        dispatch!(&self.engine, engine => engine.quiesce.is_read_only())
    }

    /// Memory for everything, in bytes.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// assert_eq!(store.memory_budget(), 256 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory_budget(&self) -> u64 {
        dispatch!(&self.engine, engine => engine.memory_budget)
    }

    /// How a page id becomes a frame.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// assert_eq!(store.translation().name(), "array");
    /// # Ok(())
    /// # }
    /// ```
    pub fn translation(&self) -> TranslationKind {
        self.engine.kind()
    }
}
