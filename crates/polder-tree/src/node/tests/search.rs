//! The search against `slice::binary_search`, for nodes of every count.

use polder_format::PageSize;
use polder_pool::bytes::PageBuf;
use proptest::prelude::*;

use super::super::{NewValue, NodeMut, NodeRef};
use super::key_shapes;

fn leaf_of(keys: &[Vec<u8>], lower: Option<&[u8]>, upper: Option<&[u8]>) -> PageBuf {
    let mut page = PageBuf::new(PageSize::MAX);
    let mut node = NodeMut::new(page.page_mut());
    node.init(0, lower, upper, 0, 0);
    for (slot, key) in keys.iter().enumerate() {
        node.insert_entry(slot, key, 0, NewValue::Inline(b"")).unwrap();
    }
    page
}

#[test]
fn every_count_finds_every_key() {
    for count in (0..200u32).chain([400, 1000]) {
        // Heads in pairs, so that rests decide as often as heads do.
        let keys: Vec<_> = (0..count)
            .map(|i| [&(i / 2 * 10).to_be_bytes()[..], &[i as u8 % 2 * 9]].concat())
            .collect();
        let page = leaf_of(&keys, None, None);
        let node = NodeRef::new(page.page());
        assert_eq!(node.verify_whole(), Ok(()));
        for i in 0..count / 2 * 10 + 20 {
            for tail in [&[][..], &[0], &[3], &[9], &[9, 0], &[10]] {
                let key = [&i.to_be_bytes()[..], tail].concat();
                assert_eq!(node.search(&key), keys.binary_search(&key), "{count} keys, {key:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_key_is_searched_right(
        shapes in prop::collection::vec(key_shapes(), 0..150),
        others in prop::collection::vec(key_shapes(), 1..50),
        fences in (key_shapes(), key_shapes()),
    ) {
        let (a, b) = (fences.0.key(PageSize::MIN), fences.1.key(PageSize::MIN));
        let (lower, upper) = if a < b { (a, b) } else { (b, a) };
        let mut keys: Vec<_> = shapes.iter().map(|shape| shape.key(PageSize::MIN)).collect();
        keys.sort();
        keys.dedup();
        keys.retain(|key| (&lower..&upper).contains(&key));
        let page = leaf_of(&keys, Some(&lower), Some(&upper));
        let node = NodeRef::new(page.page());
        prop_assert!(lower == upper || node.verify_whole() == Ok(()));
        for key in others.iter().chain(&shapes).map(|shape| shape.key(PageSize::MIN)) {
            prop_assert_eq!(node.search(&key), keys.binary_search(&key));
            let order = if key < lower { -1 } else { i8::from(key >= upper) };
            prop_assert_eq!(node.compare_to_fences(&key) as i8, order);
        }
        prop_assert_eq!(node.search_covered(&upper), Err(keys.len()));
    }
}
