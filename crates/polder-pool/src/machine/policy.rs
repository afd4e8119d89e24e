//! The kernel's memory policies. What it refuses stays as it was: memory then comes from where the
//! thread runs that first writes to it.

#![cfg(not(loom))]

use std::fmt;
use std::io;
use std::ptr::{self, NonNull};

/// Asks which nodes there are for us: `MPOL_F_MEMS_ALLOWED`, which libc lacks.
const MEMS_ALLOWED: libc::c_int = 1 << 2;
const WORD_BITS: usize = libc::c_ulong::BITS as usize;

/// The number of a node of memory (NUMA), as the kernel has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u16);

impl NodeId {
    /// A kernel can be built for so many, and not for more.
    pub(super) const MOST: usize = 1024;

    /// The node of this number.
    pub(super) fn new(number: u16) -> NodeId {
        NodeId(number)
    }

    /// The node of this number, if there is one whose memory this process may use. Where the kernel does
    /// not let us ask, only the first is known to be there.
    pub(crate) fn with_memory(number: u16) -> Option<NodeId> {
        let node = (usize::from(number) < Self::MOST).then_some(NodeId(number))?;
        let mut mask = NodeMask::default();
        match ask(None, Some(&mut mask), ptr::null(), MEMS_ALLOWED) {
            Some(()) => mask.has(node).then_some(node),
            None => (number == 0).then_some(node),
        }
    }

    /// The number, from 0 on.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// A set of nodes.
#[derive(Debug, Default)]
pub(super) struct NodeMask([libc::c_ulong; NodeId::MOST / WORD_BITS]);

impl NodeMask {
    /// One more than there are: the kernel takes one off.
    const BITS: usize = NodeId::MOST + 1;

    fn of(node: NodeId) -> NodeMask {
        let mut mask = NodeMask::default();
        let node = usize::from(node.get());
        mask.0[node / WORD_BITS] |= 1 << (node % WORD_BITS);
        mask
    }

    pub(super) fn has(&self, node: NodeId) -> bool {
        let node = usize::from(node.get());
        self.0[node / WORD_BITS] >> (node % WORD_BITS) & 1 == 1
    }
}

/// The nodes of which we may have memory. Nothing, if the kernel does not say, or if the thread was
/// given a policy that says already where its memory is to be.
pub(super) fn permitted() -> Option<NodeMask> {
    let mut mode: libc::c_int = 0;
    ask(Some(&mut mode), None, ptr::null(), 0)?;
    if mode != libc::MPOL_DEFAULT {
        return None;
    }
    let mut mask = NodeMask::default();
    ask(None, Some(&mut mask), ptr::null(), MEMS_ALLOWED)?;
    Some(mask)
}

fn ask(
    mode: Option<&mut libc::c_int>,
    mask: Option<&mut NodeMask>,
    address: *const u8,
    flags: libc::c_int,
) -> Option<()> {
    let mode = mode.map_or(ptr::null_mut(), ptr::from_mut);
    let bits = if mask.is_some() { NodeMask::BITS } else { 0 };
    let mask = mask.map_or(ptr::null_mut(), |mask| mask.0.as_mut_ptr());
    // SAFETY: what is not null is borrowed exclusively and as long as is said; the address is only
    // looked up.
    let done = unsafe { libc::syscall(libc::SYS_get_mempolicy, mode, mask, bits, address, flags) };
    (done == 0).then_some(())
}

/// Whether the system tells of no node with memory but the first.
fn has_one_node() -> bool {
    let told = std::fs::read_to_string("/sys/devices/system/node/has_memory");
    !told.is_ok_and(|nodes| nodes.trim() != "0")
}

/// Has the memory that is first written from now on come from this node, and from another when that
/// is full. (If the memory were bound to the node, a process that writes to it would be killed
/// then.) Where the first node is the only one, a kernel that refuses changes nothing.
///
/// # Safety
/// The range consists of whole kernel pages of a mapping of ours.
pub(crate) unsafe fn prefer(at: NonNull<u8>, len: usize, node: NodeId) -> io::Result<()> {
    let (mode, mask) = (libc::MPOL_PREFERRED, NodeMask::of(node));
    let (at, nodes) = (at.as_ptr(), mask.0.as_ptr());
    // SAFETY: the mask is as long as is said; the range is the caller's, and keeps its content.
    let done = unsafe { libc::syscall(libc::SYS_mbind, at, len, mode, nodes, NodeMask::BITS, 0) };
    let error = io::Error::last_os_error();
    let is_only_one = || node.get() == 0 && has_one_node();
    if done == 0 || is_only_one() { Ok(()) } else { Err(error) }
}

/// The node on which the calling thread was running a moment ago, if the kernel says so.
pub(crate) fn node_here() -> Option<NodeId> {
    let (mut core, mut node): (libc::c_uint, libc::c_uint) = (0, 0);
    let none = ptr::null_mut::<libc::c_void>();
    // SAFETY: the call writes two numbers.
    let done = unsafe { libc::syscall(libc::SYS_getcpu, &raw mut core, &raw mut node, none) };
    (done == 0).then(|| u16::try_from(node).ok().map(NodeId)).flatten()
}

/// On which node the memory behind an address lies, which has been written.
#[cfg(test)]
pub(crate) fn node_of(address: NonNull<u8>) -> Option<NodeId> {
    const NODE_OF_ADDRESS: libc::c_int = 1 | 1 << 1;
    let mut node: libc::c_int = 0;
    ask(Some(&mut node), None, address.as_ptr(), NODE_OF_ADDRESS)?;
    u16::try_from(node).ok().map(NodeId)
}
