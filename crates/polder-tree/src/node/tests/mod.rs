//! Nodes against a model, at all page sizes.

mod hostile;
mod inner;
mod leaf;
mod search;

use polder_format::PageSize;
use polder_pool::bytes::PageBuf;
use proptest::prelude::*;

use super::{NodeMut, NodeRef, PACKED_AT_ONCE, Packing, max_key_len};

pub(super) fn page_sizes() -> impl Strategy<Value = PageSize> {
    (12u32..=16).prop_map(|shift| PageSize::new(1 << shift).unwrap())
}

/// A key before the page size is known: what is common to many, and what is its own.
#[derive(Debug, Clone)]
pub(super) enum KeyShape {
    /// Few letters, zeros among them: prefixes of each other, the empty key.
    Short(Vec<u8>),
    /// Scrambled, 8 bytes.
    Scrambled(u64),
    /// A long common beginning, then few bytes.
    Shared(usize, Vec<u8>),
    /// As long as can be, different only at the end.
    Longest(u16),
}

pub(super) fn key_shapes() -> impl Strategy<Value = KeyShape> {
    let letter = prop::sample::select(vec![0u8, 1, b'a', b'b', 255]);
    prop_oneof![
        prop::collection::vec(letter.clone(), 0..9).prop_map(KeyShape::Short),
        any::<u64>().prop_map(KeyShape::Scrambled),
        (prop::sample::select(vec![3usize, 4, 40]), prop::collection::vec(letter, 0..7))
            .prop_map(|(len, tail)| KeyShape::Shared(len, tail)),
        (0u16..400).prop_map(KeyShape::Longest),
    ]
}

impl KeyShape {
    pub(super) fn key(&self, size: PageSize) -> Vec<u8> {
        match self {
            KeyShape::Short(bytes) => bytes.clone(),
            KeyShape::Scrambled(number) => number.to_be_bytes().to_vec(),
            KeyShape::Shared(len, tail) => [&vec![b's'; *len][..], tail].concat(),
            KeyShape::Longest(number) => {
                let mut key = vec![b'a'; max_key_len(size.bytes()) - 2];
                key.extend_from_slice(&number.to_be_bytes());
                key
            }
        }
    }
}

/// Nodes of one level, from left to right. The right link of node *i* is the address of its
/// neighbour's page, which is as good as a page id here.
pub(super) struct Level {
    pub(super) size: PageSize,
    pub(super) nodes: Vec<PageBuf>,
}

impl Level {
    pub(super) fn new(size: PageSize, level: u8, first_child: u64) -> Level {
        let mut page = PageBuf::new(size);
        NodeMut::new(page.page_mut()).init(level, None, None, 0, first_child);
        Level { size, nodes: vec![page] }
    }

    pub(super) fn node(&self, index: usize) -> NodeRef<'_> {
        NodeRef::new(self.nodes[index].page())
    }

    pub(super) fn node_mut(&mut self, index: usize) -> NodeMut<'_> {
        NodeMut::new(self.nodes[index].page_mut())
    }

    /// The one node that covers `key`.
    pub(super) fn covering(&self, key: &[u8]) -> usize {
        let orders: Vec<_> =
            (0..self.nodes.len()).map(|i| self.node(i).compare_to_fences(key)).collect();
        let index = orders.iter().position(|order| order.is_eq()).expect("some node covers it");
        assert!(orders[..index].iter().all(|order| order.is_gt()));
        assert!(orders[index + 1..].iter().all(|order| order.is_lt()));
        index
    }

    /// Splits a node, and checks that what was in it is in both.
    pub(super) fn split(&mut self, index: usize, split: &super::Split) {
        let mut right = PageBuf::new(self.size);
        right.bytes_mut().fill(0xee);
        let link = right.page().as_ptr() as u64;
        self.node_mut(index).split_into(&mut NodeMut::new(right.page_mut()), link, split);
        self.nodes.insert(index + 1, right);
        assert_eq!(self.node(index).upper_fence().as_ref(), Some(&split.separator));
        assert!(self.node(index + 1).lower_fence_is(&split.separator));
    }

    /// Joins a node with its right neighbour where they fit.
    pub(super) fn merge(&mut self, index: usize) -> bool {
        if index + 1 == self.nodes.len() {
            return false;
        }
        let right = self.nodes.remove(index + 1);
        let fits = self.node(index).can_merge(NodeRef::new(right.page()));
        let before = self.nodes[index].bytes().to_vec();
        let merged = self.node_mut(index).merge_right(NodeRef::new(right.page()));
        assert_eq!(fits, merged.is_ok());
        if !fits {
            assert_eq!(self.nodes[index].bytes(), before, "a refused merge changes nothing");
            self.nodes.insert(index + 1, right);
        }
        fits
    }

    /// Makes fewer leaves of those from `index` on, if that is possible, each with a part left free.
    pub(super) fn pack(&mut self, index: usize, reserve: usize) -> bool {
        let leaves: Vec<_> =
            self.nodes[index..].iter().take(9).map(|node| NodeRef::new(node.page())).collect();
        let Some(packing) = Packing::choose(&leaves, reserve) else { return false };
        assert!(packing.makes() + 1 < packing.takes && packing.takes <= PACKED_AT_ONCE);
        let separators = packing.separators(&leaves);
        let new = |_| {
            let mut page = PageBuf::new(self.size);
            page.bytes_mut().fill(0xee);
            page
        };
        let mut made: Vec<PageBuf> = (0..packing.makes()).map(new).collect();
        let links: Vec<u64> = made.iter().map(|page| page.page().as_ptr() as u64).collect();
        let behind = leaves[packing.takes - 1].right_link();
        let right = |number: usize| links.get(number).copied().unwrap_or(behind);
        let mut first = PageBuf::new(self.size);
        for (number, page) in std::iter::once(&mut first).chain(&mut made).enumerate() {
            let mut node = NodeMut::new(page.page_mut());
            packing.write(&leaves, &separators, (number, right(number)), &mut node);
            assert!(reserve == 0 || node.node().free_bytes() >= reserve || node.node().count() < 2);
        }
        // The first one stays in its page.
        NodeMut::new(self.nodes[index].page_mut()).copy_content_from(NodeRef::new(first.page()));
        self.nodes.splice(index + 1..index + packing.takes, made);
        true
    }

    /// Checks each node, and that fences and right links make a chain.
    pub(super) fn check(&self) {
        for (index, _) in self.nodes.iter().enumerate() {
            let node = self.node(index);
            assert_eq!(node.verify_whole(), Ok(()));
            let next = self.nodes.get(index + 1).map(PageBuf::page);
            assert_eq!(node.right_link(), next.map_or(0, |next| next.as_ptr() as u64));
            let fence = next.and_then(|next| NodeRef::new(next).lower_fence());
            assert_eq!(node.upper_fence(), fence);
            assert_eq!(node.has_upper(), next.is_some());
            let used = node.used_bytes() + node.free_bytes() + node.garbage();
            assert_eq!(used, node.usable_bytes());
        }
        assert!(!self.node(0).has_lower());
    }
}

pub(super) fn key_of(node: NodeRef<'_>, slot: usize) -> Vec<u8> {
    let mut key = Vec::new();
    node.append_key(slot, &mut key);
    key
}

#[test]
fn a_copied_node_is_the_same_node_in_another_page() {
    let mut level = Level::new(PageSize::MIN, 0, 0);
    level.node_mut(0).insert_entry(0, b"key", 7, super::NewValue::Inline(b"value")).unwrap();
    let mut copy = PageBuf::new(PageSize::MIN);
    copy.page_mut().set_u64(polder_format::header_at::PAGE_ID, 99);
    NodeMut::new(copy.page_mut()).copy_content_from(level.node(0));
    assert_eq!(NodeRef::new(copy.page()).verify_whole(), Ok(()));
    assert_eq!(key_of(NodeRef::new(copy.page()), 0), b"key");
    assert_eq!(copy.page().u64(polder_format::header_at::PAGE_ID), 99);
}
