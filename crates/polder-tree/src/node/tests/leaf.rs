//! Leaves: entries against a `BTreeMap`, splits of every mix of sizes, merges, bulk load.

use std::collections::BTreeMap;

use polder_format::PageSize;
use polder_pool::bytes::PageBuf;
use proptest::prelude::*;

use super::super::{NewValue, NodeBuilder, NodeMut, NodeRef, Value, max_key_len, must_overflow};
use super::{KeyShape, Level, key_of, key_shapes, page_sizes};

#[derive(Debug, Clone, PartialEq)]
enum Stored {
    Inline(Vec<u8>),
    Overflow(u64, u64),
}

impl Stored {
    /// A value of `len` bytes, in overflow pages where it must be.
    fn new(size: PageSize, key: &[u8], len: usize, fill: u8) -> Stored {
        if must_overflow(size.bytes(), key.len(), len) {
            Stored::Overflow(len as u64, u64::from(fill) + 1)
        } else {
            Stored::Inline(vec![fill; len])
        }
    }

    fn new_value(&self) -> NewValue<'_> {
        match self {
            Stored::Inline(bytes) => NewValue::Inline(bytes),
            Stored::Overflow(len, link) => NewValue::Overflow { len: *len, run: 1, link: *link },
        }
    }
}

fn stored(node: NodeRef<'_>, slot: usize) -> Stored {
    match node.value(slot) {
        Value::Inline { at, len } => {
            let mut bytes = vec![0; len];
            assert_eq!(node.page().copy_to(at, &mut bytes), len);
            Stored::Inline(bytes)
        }
        Value::Overflow { len, link, .. } => Stored::Overflow(len, link),
    }
}

type Model = BTreeMap<Vec<u8>, (u64, Stored)>;

/// Inserts or replaces, splitting where there is no room. A split must make the room.
fn put(level: &mut Level, key: &[u8], version: u64, value: &Stored) {
    for attempt in 0.. {
        let index = level.covering(key);
        let mut node = level.node_mut(index);
        let done = match node.node().search(key) {
            Ok(slot) => node.replace_value(slot, version, value.new_value()),
            Err(slot) => node.insert_entry(slot, key, version, value.new_value()),
        };
        if done.is_ok() {
            return;
        }
        assert_eq!(attempt, 0, "there is no room after a split");
        assert_eq!(level.node(index).verify_whole(), Ok(()));
        let split = level.node(index).choose_leaf_split(key, value.new_value());
        level.split(index, &split.expect("a full leaf can be split"));
        level.check();
    }
}

fn check(level: &Level, model: &Model) {
    level.check();
    let mut found = Vec::new();
    for index in 0..level.nodes.len() {
        let node = level.node(index);
        for slot in 0..node.count() {
            found.push((key_of(node, slot), (node.version(slot), stored(node, slot))));
        }
    }
    assert!(found.iter().map(|(key, entry)| (key, entry)).eq(model), "contents differ");
}

#[derive(Debug, Clone)]
enum Step {
    Put(KeyShape, u16, u8),
    Remove(prop::sample::Index),
    RemoveRun(prop::sample::Index, u8),
    Merge(prop::sample::Index),
    /// From which leaf on, and which part of each stays free.
    Pack(prop::sample::Index, u8),
    Search(KeyShape),
}

fn steps() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        8 => (key_shapes(), prop_oneof![0u16..300, 0u16..=1100], any::<u8>())
            .prop_map(|(key, len, fill)| Step::Put(key, len, fill)),
        2 => index().prop_map(Step::Remove),
        1 => (index(), any::<u8>()).prop_map(|(at, many)| Step::RemoveRun(at, many)),
        1 => index().prop_map(Step::Merge),
        1 => (index(), 0u8..8).prop_map(|(at, part)| Step::Pack(at, part)),
        2 => key_shapes().prop_map(Step::Search),
    ]
}

fn remove(level: &mut Level, key: &[u8]) {
    let index = level.covering(key);
    let slot = level.node(index).search_covered(key).expect("the key is there");
    level.node_mut(index).remove_entry(slot);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn leaves_agree_with_the_model(size in page_sizes(), steps in prop::collection::vec(steps(), 1..250)) {
        let (mut level, mut model) = (Level::new(size, 0, 0), Model::new());
        let scale = size.bytes() / PageSize::MIN.bytes();
        for (version, step) in steps.into_iter().enumerate() {
            let version = version as u64;
            match step {
                Step::Put(key, len, fill) => {
                    let key = key.key(size);
                    let value = Stored::new(size, &key, usize::from(len) * scale, fill);
                    put(&mut level, &key, version, &value);
                    model.insert(key, (version, value));
                }
                Step::Remove(at) if !model.is_empty() => {
                    let key = model.keys().nth(at.index(model.len())).unwrap().clone();
                    remove(&mut level, &key);
                    model.remove(&key);
                }
                Step::RemoveRun(at, many) if !model.is_empty() => {
                    let skip = at.index(model.len());
                    let keys: Vec<_> =
                        model.keys().skip(skip).take(usize::from(many) % 40).cloned().collect();
                    for key in keys {
                        remove(&mut level, &key);
                        model.remove(&key);
                    }
                }
                Step::Remove(_) | Step::RemoveRun(..) => {}
                Step::Merge(at) => {
                    let index = at.index(level.nodes.len());
                    level.merge(index);
                }
                Step::Pack(at, part) => {
                    let index = at.index(level.nodes.len());
                    level.pack(index, size.bytes() / 16 * usize::from(part));
                }
                Step::Search(key) => {
                    let key = key.key(size);
                    let found = level.node(level.covering(&key)).search_covered(&key);
                    prop_assert_eq!(found.is_ok(), model.contains_key(&key));
                }
            }
            if version.is_multiple_of(16) {
                check(&level, &model);
            }
        }
        check(&level, &model);
        // What can be packed is, and then nothing can.
        let mut index = 0;
        while index < level.nodes.len() {
            while level.pack(index, 0) {}
            index += 1;
        }
        check(&level, &model);
        // With all removed, every neighbour can be joined, and one empty node is left.
        for key in model.keys() {
            remove(&mut level, key);
        }
        while level.nodes.len() > 1 {
            prop_assert!(level.merge(0));
        }
        prop_assert_eq!(level.node(0).used_bytes(), 0);
    }

    /// Keys and values of the least and the greatest size only, with fences of any: NODE-4.
    #[test]
    fn a_split_makes_room_for_extreme_sizes(
        size in page_sizes(),
        entries in prop::collection::vec((any::<u16>(), any::<bool>(), 0u8..3), 1..150),
    ) {
        let (mut level, mut model) = (Level::new(size, 0, 0), Model::new());
        for (number, long, value) in entries {
            let mut key = number.to_be_bytes().to_vec();
            if long {
                // Half of them differ only in their last bytes, so that separators are long too.
                let begin = if number % 2 == 0 { key.clone() } else { Vec::new() };
                let fill = max_key_len(size.bytes()) - key.len() - begin.len();
                key = [begin, vec![b'x'; fill], key].concat();
            }
            let longest = size.bytes() / 4 - 10 - key.len();
            let len = [0, longest, longest + 1][usize::from(value)];
            let value = Stored::new(size, &key, len, value);
            put(&mut level, &key, 1, &value);
            model.insert(key, (1, value));
        }
        check(&level, &model);
    }

    #[test]
    fn built_leaves_hold_the_input(
        size in page_sizes(),
        shapes in prop::collection::btree_map(any::<u16>(), (key_shapes(), 0usize..400), 0..300),
    ) {
        let mut model = Model::new();
        for (key, len) in shapes.into_values() {
            let key = key.key(size);
            let value = Stored::new(size, &key, len * size.bytes() / 4096, 7);
            model.insert(key, (3, value));
        }
        let mut level = Level { size, nodes: vec![PageBuf::new(size)] };
        let mut builder = NodeBuilder::leaves(size.bytes());
        let mut emit = |builder: &mut NodeBuilder| {
            let next = PageBuf::new(size);
            let link = next.page().as_ptr() as u64;
            let last = level.nodes.len() - 1;
            builder.emit(&mut level.node_mut(last), link);
            level.nodes.push(next);
        };
        for (key, (version, value)) in &model {
            builder.push_entry(key, *version, value.new_value());
            while builder.is_full() {
                emit(&mut builder);
            }
        }
        while !builder.fits_last() {
            emit(&mut builder);
        }
        let last = level.nodes.len() - 1;
        builder.emit_last(&mut level.node_mut(last));
        check(&level, &model);
    }
}

/// Loads `keys` in their order and returns what part of the leaves is used.
fn fill_after(keys: impl Iterator<Item = u64>) -> f64 {
    let mut level = Level::new(PageSize::MIN, 0, 0);
    for key in keys {
        let key = key.to_be_bytes();
        put(&mut level, &key, 0, &Stored::Inline(vec![1; 120]));
    }
    level.check();
    let used: usize = (0..level.nodes.len()).map(|i| level.node(i).used_bytes()).sum();
    let usable: usize = (0..level.nodes.len()).map(|i| level.node(i).usable_bytes()).sum();
    used as f64 / usable as f64
}

#[test]
fn sorted_loads_leave_full_leaves() {
    let (up, down) = (fill_after(0..2000), fill_after((0..2000).rev()));
    assert!(up > 0.9 && down > 0.9, "{up} {down}");
    let scrambled = fill_after((1..=5000).map(polder_testkit::random::scramble));
    assert!((0.6..0.8).contains(&scrambled), "{scrambled}");
}

#[test]
fn values_grow_and_shrink_in_a_full_leaf() {
    let mut page = PageBuf::new(PageSize::MIN);
    let mut node = NodeMut::new(page.page_mut());
    node.init(0, Some(b"key0"), Some(b"key9"), 0, 0);
    let mut slots = 0;
    while node
        .insert_entry(slots, format!("key1{slots:04}").as_bytes(), 0, NewValue::Inline(&[1; 100]))
        .is_ok()
    {
        slots += 1;
    }
    for round in 0..200u64 {
        let slot = round as usize * 7 % slots;
        let len = if round % 2 == 0 { 20 } else { 100 };
        node.replace_value(slot, round, NewValue::Inline(&vec![round as u8; len])).unwrap();
        assert_eq!(node.node().verify_whole(), Ok(()));
        assert_eq!(node.node().version(slot), round);
        assert_eq!(stored(node.node(), slot), Stored::Inline(vec![round as u8; len]));
    }
    for slot in 0..slots {
        node.replace_value(slot, 0, NewValue::Inline(&[9; 100])).unwrap();
    }
    let before = node.node().used_bytes();
    assert!(node.replace_value(0, 0, NewValue::Inline(&[2; 1000])).is_err());
    assert_eq!((node.node().used_bytes(), node.node().verify_whole()), (before, Ok(())));
}

#[test]
fn built_leaves_are_full() {
    let mut builder = NodeBuilder::leaves(4096);
    let mut page = PageBuf::new(PageSize::MIN);
    let mut node = NodeMut::new(page.page_mut());
    for number in 0..1000u64 {
        builder.push_entry(&(number * 7).to_be_bytes(), 0, NewValue::Inline(&[1; 120]));
        while builder.is_full() {
            builder.emit(&mut node, 1);
            assert_eq!(node.node().verify_whole(), Ok(()));
            assert!(node.node().free_bytes() < 8 + 10 + 120 + 4);
        }
    }
}
