//! What a change did, and where the log tells of it.

use polder_format::Lsn;

/// What a change did to the number of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// A key is new.
    Added,
    /// A key that was there is gone.
    Removed,
    /// As many as before.
    Same,
}

/// A change that was made, and logged if the pool has a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// What it did to the number of entries.
    pub effect: Effect,
    /// Once the log is durable up to here, so is the change. If nothing was changed: what the answer
    /// rests on.
    pub lsn: Lsn,
}

impl Applied {
    /// Nothing was changed, and nothing looked at.
    pub const NOTHING: Applied = Applied { effect: Effect::Same, lsn: Lsn(0) };

    /// Nothing was changed; the answer rests on a page whose last change is this.
    pub fn unchanged(lsn: Lsn) -> Applied {
        Applied { effect: Effect::Same, lsn }
    }
}
