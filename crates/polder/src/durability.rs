//! When a write is durable.

use std::fmt;
use std::time::Duration;

/// When a write is durable: it survives the end of the process, of the system and of the power.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use polder::{Durability, Options, Store};
/// let options = Options::new(dir.path().join("s")).memory_budget(16 << 20);
/// let store = Store::open(options.durability(Durability::None))?;
/// let table = store.open_table("t")?;
/// table.put("soon", "durable")?;
/// table.with_durability(Durability::Sync).put("now", "durable")?; // and all before it
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// When the call returns. Writers that wait at the same time share one sync of the device.
    #[default]
    Sync,
    /// Within this time. After a crash the store holds a prefix of what was written. The whole store is
    /// synced so: of all periods that were asked for since it was opened the shortest one holds until it
    /// is closed.
    Periodic(Duration),
    /// Soon (within a second or so), and nobody waits. After a crash the store holds a prefix of
    /// what was written.
    None,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Sync => f.write_str("sync"),
            Durability::Periodic(period) => write!(f, "periodic:{period:?}"),
            Durability::None => f.write_str("none"),
        }
    }
}
