//! The machine: memory that the kernel gives, cores, nodes of memory, processes.

pub(crate) mod cores;
pub mod fork;
pub(crate) mod memory;
pub(crate) mod nodes;
pub(crate) mod policy;
pub(crate) mod table;
