//! What Polder's tests share.
//!
//! * [`disk`]: [`SimDisk`], a device in memory that fails, delays, tears, drops and fills up by a
//!   seeded [`FaultPlan`], and of which a crash leaves what a crash may leave.
//! * [`model`]: operations on an ordered key-value store, and the [`Model`] that knows their
//!   answers.
//! * [`workload`]: a seeded stream of such operations.
//! * [`random`]: the generator behind all of them. What has the same seed does the same.
//!
//! Nothing here knows of trees or of stores. Unit tests inside `polder-pool` cannot use the disk
//! (they see another build of the pool than this crate does); its integration tests can.

pub mod disk;
pub mod model;
pub mod random;
pub mod workload;

pub use disk::{Counts, Errno, FaultPlan, Operation, SimDisk, When};
pub use model::{Answer, Change, Difference, Entry, Model, Op, Ordered, compare};
pub use random::Random;
pub use workload::{KeyShape, Mix, ValueShape, Workload};
