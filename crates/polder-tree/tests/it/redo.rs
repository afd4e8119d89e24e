//! Redoing records that do not fit: a recovery may meet a page that others have written since.

use polder_format::PageSize;
use polder_format::log::{LoggedValue, Operation, Records};
use polder_pool::bytes::PageBuf;
use polder_tree::node::{NewValue, NodeMut, NodeRef};
use polder_tree::redo;
use proptest::prelude::*;

fn node(level: u8, entries: &[(Vec<u8>, Vec<u8>)]) -> PageBuf {
    let mut page = PageBuf::new(PageSize::MIN);
    let mut node = NodeMut::new(page.page_mut());
    node.init(level, Some(b"b"), Some(b"y"), 0, u64::from(level) * 99);
    for (key, value) in entries {
        if !node.node().compare_to_fences(key).is_eq() || node.node().lower_fence_is(key) {
            continue;
        }
        match (level, node.node().search(key)) {
            (0, Err(slot)) => drop(node.insert_entry(slot, key, 1, NewValue::Inline(value))),
            (0, Ok(_)) => {}
            _ => drop(node.insert_child(key, 77)),
        }
    }
    page
}

fn entries() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let key = prop::collection::vec(97..123u8, 1..20);
    prop::collection::vec((key, prop::collection::vec(any::<u8>(), 0..200)), 0..40)
}

proptest! {
    /// Whatever a record says, the node keeps its shape, or the page is thrown away.
    #[test]
    fn a_record_that_does_not_fit_is_refused(
        entries in entries(),
        keys in entries(),
        level in 0..2u8,
        number in 0..60u32,
    ) {
        let mut page = node(level, &entries);
        for (key, value) in &keys {
            let operations = [
                Operation::Insert { added: true, version: 9, key, value: LoggedValue::Inline(value) },
                Operation::Remove { key },
                Operation::InsertChild { link: 5, separator: key },
                Operation::RemoveChild { index: number },
                Operation::Split { left_count: number, right: 8, separator: key },
                Operation::Loaded { entries: 1 },
            ];
            for operation in operations {
                if redo(&operation, page.page_mut()).is_err() {
                    page = node(level, &entries);
                }
                prop_assert!(NodeRef::new(page.page()).verify_shape().is_ok());
            }
        }
    }

    #[test]
    fn hostile_records_are_decoded_or_refused(bytes: Vec<u8>) {
        let mut page = node(0, &[]);
        for record in Records::of_group(&bytes).map_while(Result::ok) {
            let _ = redo(&record.operation, page.page_mut());
            prop_assert!(NodeRef::new(page.page()).verify_shape().is_ok());
        }
    }
}

/// A page of another kind, as a former or a later life of its number may have left it.
#[test]
fn a_page_that_is_no_node_is_refused() {
    let operation = Operation::Remove { key: b"k" };
    for fill in [0, 0xFF] {
        let mut page = PageBuf::new(PageSize::MIN);
        page.bytes_mut().fill(fill);
        assert!(redo(&operation, page.page_mut()).is_err());
    }
    let mut inner = node(1, &[]);
    assert!(redo(&operation, inner.page_mut()).is_err());
}

/// What a log can say and no tree has ever written (found by the fuzz target `log`).
#[test]
fn what_no_node_can_hold_is_refused() {
    let long_key = vec![b'k'; PageSize::MIN.bytes()];
    let long_value = vec![0; PageSize::MIN.bytes() / 2];
    let insert = |key, value| Operation::Insert { added: true, version: 9, key, value };
    let at_leaf = [
        insert(long_key.as_slice(), LoggedValue::Inline(b"v")),
        insert(b"k", LoggedValue::Inline(&long_value)),
        insert(b"k", LoggedValue::Long { len: 70_000, run: 1, link: 0 }),
        insert(b"k", LoggedValue::Long { len: 1 << 31, run: 1, link: 5 }),
        insert(b"k", LoggedValue::Long { len: 70_000, run: 19, link: 5 }),
        Operation::Split { left_count: 0, right: 8, separator: &long_key },
        Operation::Split { left_count: 0, right: 8, separator: b"b" },
    ];
    let at_inner = [
        Operation::InsertChild { link: 0, separator: b"k" },
        Operation::InsertChild { link: 1 << 62 | 5, separator: b"k" },
        Operation::InsertChild { link: 5, separator: &long_key },
        Operation::InsertChild { link: 5, separator: b"b" },
    ];
    for (level, operations) in [(0, at_leaf.as_slice()), (1, at_inner.as_slice())] {
        for (number, operation) in operations.iter().enumerate() {
            let mut page = node(level, &[]);
            assert!(redo(operation, page.page_mut()).is_err(), "level {level}, number {number}");
            assert!(page.bytes() == node(level, &[]).bytes(), "level {level}, number {number}");
        }
    }
    // A leaf and a node above it, both so full that a longer fence has no room.
    for level in 0..2 {
        let key = |number: u32| format!("d{number:03}").into_bytes();
        let full: Vec<_> = (0..400).map(|number| (key(number), vec![7; 9])).collect();
        let mut page = node(level, &full);
        let count = NodeRef::new(page.page()).count() as u32;
        assert!((20..400).contains(&count), "level {level}: {count} entries");
        let last = key(count - 1);
        let mut split = |left_count, separator: &[u8]| {
            let split = Operation::Split { left_count, right: 8, separator };
            let before = page.bytes().to_vec();
            let done = redo(&split, page.page_mut()).is_ok();
            assert!(done || page.bytes() == before, "level {level}: a refusal changed the page");
            done
        };
        assert!(!split(count, &[b'x'; 100]), "level {level}: no room for the separator");
        assert!(!split(count, &last) && !split(count - 2, &last), "level {level}: a wrong count");
        assert_eq!(split(count, b"e"), level == 0, "only a leaf is split where it has no key");
        assert!(split(count / 2, &key(count / 2)), "level {level}");
        assert_eq!(NodeRef::new(page.page()).verify_whole(), Ok(()), "level {level}");
    }
    let fits = insert(b"k", LoggedValue::Long { len: 70_000, run: 18, link: 5 });
    assert_eq!(redo(&fits, node(0, &[]).page_mut()), Ok(()));
}
