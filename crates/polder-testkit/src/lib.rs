//! What Polder's tests share.
//!
//! * [`disk`]: [`SimDisk`], a device in memory that fails, delays, tears, drops and fills up by a
//!   seeded [`FaultPlan`], and of which a crash leaves what a crash may leave.
//! * [`model`]: operations on an ordered key-value store, and the [`Model`] that knows their
//!   answers.
//! * [`workload`]: a seeded stream of such operations.
//! * [`pools`]: a disk without faults, and configurations of pools that are as small as may be.
//! * [`recovery`]: a log in memory, and what a recovery does with it.
//! * [`effort`]: how many seeds, rounds and steps a test tries in an ordinary run, and in a long
//!   one.
//! * [`found`]: data and programs that a test needs, and is skipped without.
//! * [`random`]: the generator behind all of them. What has the same seed does the same.
//!
//! Nothing here knows of trees or of stores. Unit tests inside `polder-pool` cannot use the disk
//! (they see another build of the pool than this crate does); its integration tests can.

pub mod disk;
pub mod effort;
pub mod found;
pub mod model;
pub mod pools;
pub mod random;
pub mod recovery;
pub mod workload;

pub use disk::{Counts, Errno, FaultPlan, Operation, SimDisk, When};
pub use model::{Answer, Change, Difference, Entry, Model, Op, Ordered, compare};
pub use random::Random;
pub use workload::{KeyShape, Mix, ValueShape, Workload};
