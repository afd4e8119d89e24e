//! A B+tree node, some of whose bytes were changed.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use polder_format::PageSize;
use polder_pool::bytes::PageBuf;
use polder_tree::node::{NewValue, NodeMut, NodeRef, Value, max_key_len, must_overflow};

#[derive(Debug, Arbitrary)]
struct Input {
    leaf: bool,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    changes: Vec<(u16, u8)>,
    edits: Vec<Edit>,
}

#[derive(Debug, Arbitrary)]
enum Edit {
    Put(Vec<u8>, Vec<u8>),
    Remove(u16),
}

const SIZE: PageSize = PageSize::MIN;

/// Sets the value or the child of a key that the node covers, if there is room.
fn put(buf: &mut PageBuf, key: &[u8], value: &[u8]) {
    let mut node = NodeMut::new(buf.page_mut());
    let covered = node.node().compare_to_fences(key).is_eq();
    if key.len() > max_key_len(SIZE.bytes()) || !covered {
        return;
    }
    if !node.node().is_leaf() {
        if !node.node().lower_fence_is(key) {
            let _ = node.insert_child(key, 1 + value.len() as u64);
        }
        return;
    }
    let value = if must_overflow(SIZE.bytes(), key.len(), value.len()) {
        NewValue::Overflow { len: value.len() as u64, run: 1, link: 9 }
    } else {
        NewValue::Inline(value)
    };
    let _ = match node.node().search(key) {
        Ok(slot) => node.replace_value(slot, 1, value),
        Err(slot) => node.insert_entry(slot, key, 1, value),
    };
}

fn remove(buf: &mut PageBuf, index: u16) {
    let mut node = NodeMut::new(buf.page_mut());
    let count = node.node().count();
    if count == 0 {
        return;
    }
    let slot = usize::from(index) % count;
    if node.node().is_leaf() { node.remove_entry(slot) } else { node.remove_child(slot + 1) }
}

/// Whatever the page holds, a reader gets some answer that lies within it.
fn read_all(node: NodeRef<'_>, keys: &[(Vec<u8>, Vec<u8>)]) {
    let _ = (node.lower_fence(), node.upper_fence(), node.right_link(), node.used_bytes());
    for slot in 0..node.count() {
        let mut key = Vec::new();
        node.append_key(slot, &mut key);
        let _ = (node.version(slot), node.link(slot), node.search(&key));
        if let Value::Inline { at, len } = node.value(slot) {
            assert!(at + len <= SIZE.bytes());
        }
    }
    for (key, _) in keys {
        let (Ok(slot) | Err(slot)) = node.search(key);
        assert!(slot <= node.count());
        assert!(node.child_at(key) < SIZE.bytes() && node.child_before(key) < SIZE.bytes());
    }
}

fuzz_target!(|input: Input| {
    let Input { leaf, mut lower, mut upper, entries, changes, edits } = input;
    for fence in [&mut lower, &mut upper].into_iter().flatten() {
        fence.truncate(max_key_len(SIZE.bytes()));
    }
    if let (Some(a), Some(b)) = (&lower, &upper)
        && a >= b
    {
        upper = None;
    }
    let mut buf = PageBuf::new(SIZE);
    let first_child = if leaf { 0 } else { 7 };
    NodeMut::new(buf.page_mut()).init(
        u8::from(!leaf),
        lower.as_deref(),
        upper.as_deref(),
        0,
        first_child,
    );
    entries.iter().for_each(|(key, value)| put(&mut buf, key, value));
    assert_eq!(NodeRef::new(buf.page()).verify_whole(), Ok(()));

    for (at, change) in changes {
        buf.bytes_mut()[usize::from(at) % SIZE.bytes()] ^= change;
    }
    read_all(NodeRef::new(buf.page()), &entries);
    if NodeRef::new(buf.page()).verify_shape().is_err() {
        return;
    }
    for edit in edits {
        let whole = NodeRef::new(buf.page()).verify_whole();
        match &edit {
            Edit::Put(key, value) => put(&mut buf, key, value),
            Edit::Remove(index) => remove(&mut buf, *index),
        }
        if whole.is_ok() {
            assert_eq!(NodeRef::new(buf.page()).verify_whole(), Ok(()), "after {edit:?}");
        }
    }
    read_all(NodeRef::new(buf.page()), &entries);
});
