//! The machine: memory that the kernel gives, cores, nodes of memory, processes.

pub(crate) mod cores;
pub mod fork;
mod huge;
pub(crate) mod memory;
pub(crate) mod nodes;
pub(crate) mod page_moves;
pub(crate) mod policy;
pub(crate) mod table;

#[cfg(not(loom))]
pub(crate) use {
    cores::{GroupNo, Grouping, Groups},
    memory::{
        HUGE_PAGE_BYTES, Mapping, OS_PAGE_BYTES, give_back, kernel_page_bytes, madvise,
        threads_with_room,
    },
    nodes::Nodes,
    page_moves::{Moved, PageMoves, check_may_move, move_pages},
    policy::{NodeId, node_here},
    table::{Table, Zeroed},
};
