//! A bucket and a node of a hash index, some of whose bytes were changed.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use polder_format::PageSize;
use polder_hash::bucket::{BucketMut, BucketRef, max_entry_len};
use polder_hash::node::{NodeMut, NodeRef};
use polder_hash::{KeyHash, Prefix, Side};
use polder_pool::bytes::PageBuf;

#[derive(Debug, Arbitrary)]
struct Input {
    bits: u8,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    splits: Vec<u64>,
    changes: Vec<(u16, u8)>,
    edits: Vec<Edit>,
}

#[derive(Debug, Arbitrary)]
enum Edit {
    Put(Vec<u8>, Vec<u8>),
    Remove(u16),
    SplitChild(u64),
    JoinChildren(u64),
    Halve,
}

const SIZE: PageSize = PageSize::MIN;

/// Sets the value of a key that the bucket covers, if there is room.
fn put(buf: &mut PageBuf, key: &[u8], value: &[u8]) {
    let mut bucket = BucketMut::new(buf.page_mut());
    let (hash, seen) = (KeyHash::of(key), bucket.bucket());
    let too_long = key.len() + value.len() > max_entry_len(SIZE.bytes());
    if too_long || !seen.prefix().covers(hash) || seen.has_next() {
        return;
    }
    let _ = match seen.search(key, hash) {
        Ok(entry) => bucket.replace(entry, key, value),
        Err(place) => bucket.insert(place, hash, key, value),
    };
}

fn split_child(buf: &mut PageBuf, hash: u64) {
    let (hash, mut node) = (KeyHash::new(hash), NodeMut::new(buf.page_mut()));
    if node.node().has_room_to_split(hash) {
        let side = if hash.bits() & 1 == 0 { Side::Low } else { Side::High };
        node.split_child(hash, 9, side);
    }
}

/// Whatever the pages hold, a reader gets some answer that lies within them.
fn read_all(bucket: BucketRef<'_>, node: NodeRef<'_>, input: &[(Vec<u8>, Vec<u8>)]) {
    let _ = (bucket.verify_whole(), bucket.hole(), bucket.used_bytes(), bucket.next());
    let _ = (node.verify_shape(), node.hole(), node.can_absorb(node));
    for entry in 0..bucket.count() {
        for run in [bucket.key(entry), bucket.value(entry)] {
            assert!(run.at + run.len <= SIZE.bytes());
        }
    }
    for (key, _) in input {
        let hash = KeyHash::of(key);
        let (Ok(entry) | Err(entry)) = bucket.search(key, hash);
        assert!(entry <= bucket.count());
        for at in node.buddies(hash).into_iter().flatten().chain([node.link_for(hash)]) {
            assert!(at % 8 == 0 && at + 8 <= SIZE.bytes());
        }
    }
    assert!(node.children().count() <= SIZE.bytes());
}

fn edit(bucket: &mut PageBuf, node: &mut PageBuf, edit: &Edit) {
    match edit {
        Edit::Put(key, value) => put(bucket, key, value),
        Edit::Remove(index) => {
            let mut bucket = BucketMut::new(bucket.page_mut());
            let count = bucket.bucket().count();
            if count > 0 {
                bucket.remove(usize::from(*index) % count);
            }
        }
        Edit::SplitChild(hash) => split_child(node, *hash),
        Edit::JoinChildren(hash) => {
            NodeMut::new(node.page_mut()).join_children(KeyHash::new(*hash));
        }
        Edit::Halve => {
            let mut high = PageBuf::new(SIZE);
            let mut low = BucketMut::new(bucket.page_mut());
            if low.bucket().prefix().bits() < 64 && !low.bucket().has_next() {
                low.split_into(&mut BucketMut::new(high.page_mut()));
                low.absorb(BucketRef::new(high.page()));
            }
            let (mut high, mut low) = (PageBuf::new(SIZE), NodeMut::new(node.page_mut()));
            if low.node().depth() > 0 {
                low.split_into(&mut NodeMut::new(high.page_mut()));
                low.absorb(NodeRef::new(high.page()));
            }
        }
    }
}

fuzz_target!(|input: Input| {
    let Input { bits, entries, splits, changes, edits } = input;
    let (mut bucket, mut node) = (PageBuf::new(SIZE), PageBuf::new(SIZE));
    let prefix = Prefix::of(KeyHash::new(splits.first().copied().unwrap_or(0)), bits % 8);
    BucketMut::new(bucket.page_mut()).init(prefix);
    NodeMut::new(node.page_mut()).init(1, prefix, [1, 2]);
    entries.iter().for_each(|(key, value)| put(&mut bucket, key, value));
    splits.iter().for_each(|hash| split_child(&mut node, *hash));
    assert_eq!(BucketRef::new(bucket.page()).verify_whole(), Ok(()));
    assert_eq!(NodeRef::new(node.page()).verify_shape(), Ok(()));

    for (at, change) in changes {
        let buf = if at & 1 << 15 == 0 { &mut bucket } else { &mut node };
        buf.bytes_mut()[usize::from(at) % SIZE.bytes()] ^= change;
    }
    read_all(BucketRef::new(bucket.page()), NodeRef::new(node.page()), &entries);
    let shapes = |bucket: &PageBuf, node: &PageBuf| {
        BucketRef::new(bucket.page()).verify_shape().is_ok()
            && NodeRef::new(node.page()).verify_shape().is_ok()
    };
    if !shapes(&bucket, &node) {
        return;
    }
    for what in edits {
        let whole = BucketRef::new(bucket.page()).verify_whole();
        edit(&mut bucket, &mut node, &what);
        if whole.is_ok() {
            assert_eq!(BucketRef::new(bucket.page()).verify_whole(), Ok(()), "after {what:?}");
        }
        assert_eq!(NodeRef::new(node.page()).verify_shape(), Ok(()), "after {what:?}");
    }
    read_all(BucketRef::new(bucket.page()), NodeRef::new(node.page()), &entries);
});
