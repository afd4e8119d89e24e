use std::collections::BTreeMap;

use polder_format::PageSize;
use polder_pool::bytes::PageBuf;
use proptest::prelude::*;

use super::{BucketMut, BucketRef, Run, max_entry_len};
use crate::hash::{KeyHash, Prefix, Side};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn new_bucket(size: PageSize, prefix: Prefix) -> PageBuf {
    let mut page = PageBuf::new(size);
    BucketMut::new(page.page_mut()).init(prefix);
    page
}

/// Puts an entry into the bucket, if it belongs there and there is room.
fn put(page: &mut PageBuf, key: &[u8], value: &[u8]) -> bool {
    let mut bucket = BucketMut::new(page.page_mut());
    let (hash, seen) = (KeyHash::of(key), bucket.bucket());
    let possible = key.len() + value.len() <= max_entry_len(seen.page().size());
    if !possible || !seen.prefix().covers(hash) {
        return false;
    }
    let entry = seen.search(key, hash);
    let has_room = seen.has_room(entry, key.len(), value.len());
    let done = match entry {
        Ok(entry) => bucket.replace(entry, key, value),
        Err(place) => bucket.insert(place, hash, key, value),
    };
    assert_eq!(done.is_ok(), has_room);
    has_room
}

fn remove(page: &mut PageBuf, key: &[u8]) -> bool {
    let mut bucket = BucketMut::new(page.page_mut());
    let entry = bucket.bucket().search(key, KeyHash::of(key));
    entry.inspect(|entry| bucket.remove(*entry)).is_ok()
}

fn content(page: &PageBuf) -> Entries {
    let bucket = BucketRef::new(page.page());
    assert_eq!(bucket.verify_whole(), Ok(()));
    let bytes = |run: Run| page.bytes()[run.at..run.at + run.len].to_vec();
    (0..bucket.count())
        .map(|entry| (bytes(bucket.key(entry)), bytes(bucket.value(entry))))
        .collect()
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(0..3u8, 0..4), prop::collection::vec(any::<u8>(), 0..30)]
}

fn entries(count: usize) -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(any::<u8>(), 0..1000),
    ];
    prop::collection::vec((keys(), value), 0..count)
}

fn sizes() -> impl Strategy<Value = PageSize> {
    prop_oneof![Just(PageSize::MIN), Just(PageSize::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_bucket_is_a_map(size in sizes(), ops in entries(400), removes in prop::collection::vec(0..4u8, 400)) {
        let mut page = new_bucket(size, Prefix::ALL);
        let mut model = Entries::new();
        for ((key, value), what) in ops.into_iter().zip(removes) {
            if what == 0 {
                prop_assert_eq!(remove(&mut page, &key), model.remove(&key).is_some());
            } else if put(&mut page, &key, &value) {
                model.insert(key, value);
            }
            prop_assert_eq!(BucketRef::new(page.page()).count(), model.len());
        }
        prop_assert_eq!(content(&page), model);
    }

    #[test]
    fn what_is_split_is_joined_again(size in sizes(), there in entries(300)) {
        let mut whole = new_bucket(size, Prefix::ALL);
        for (key, value) in &there {
            put(&mut whole, key, value);
        }
        let all = content(&whole);
        let mut high = PageBuf::new(size);
        BucketMut::new(whole.page_mut()).split_into(&mut BucketMut::new(high.page_mut()));
        let (mut halves, of_high) = (content(&whole), content(&high));
        prop_assert_eq!(BucketRef::new(whole.page()).prefix(), Prefix::ALL.half(Side::Low));
        prop_assert_eq!(BucketRef::new(high.page()).prefix(), Prefix::ALL.half(Side::High));
        prop_assert!(of_high.keys().all(|key| KeyHash::of(key).bits() >> 63 == 1));
        halves.extend(of_high);
        prop_assert_eq!(&halves, &all);
        let joined = BucketMut::new(whole.page_mut()).absorb(BucketRef::new(high.page()));
        prop_assert!(joined);
        prop_assert_eq!(BucketRef::new(whole.page()).prefix(), Prefix::ALL);
        prop_assert_eq!(content(&whole), all);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(seed: u64, key in keys()) {
        let mut page = PageBuf::new(PageSize::MIN);
        polder_testkit::Random::new(seed).fill(page.bytes_mut());
        read_all(&page, &key);
        page.bytes_mut().fill(seed as u8);
        read_all(&page, &key);
    }

    #[test]
    fn a_damaged_bucket_is_refused_or_can_be_edited(
        size in sizes(),
        there in entries(100),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..4),
        key in keys(),
    ) {
        let mut page = new_bucket(size, Prefix::ALL);
        for (key, value) in &there {
            put(&mut page, key, value);
        }
        for (at, byte, where_to) in damage {
            // Most of the damage goes where it hurts: header and slots.
            let most = [64, 300, size.bytes()][usize::from(where_to)];
            page.bytes_mut()[at.index(most)] = byte;
        }
        read_all(&page, &key);
        if BucketRef::new(page.page()).verify_shape().is_ok() {
            edit_all(&mut page, size, &key);
        }
    }
}

/// Calls every reader. Whatever comes back is inside of the page.
fn read_all(page: &PageBuf, key: &[u8]) {
    let (bucket, size) = (BucketRef::new(page.page()), page.page().size());
    let hash = KeyHash::of(key);
    let _ = (bucket.verify_shape(), bucket.verify_whole(), bucket.hole(), bucket.used_bytes());
    let _ = (bucket.prefix(), bucket.next(), bucket.chain_hash(), bucket.all_have(hash));
    let _ = bucket.count_of(Side::Low);
    let (Ok(entry) | Err(entry)) = bucket.search(key, hash);
    assert!(entry <= bucket.count() && bucket.count() <= size / 4);
    for entry in 0..bucket.count() {
        for run in [bucket.key(entry), bucket.value(entry)] {
            assert!(run.at + run.len <= size);
        }
    }
}

/// Edits of all kinds. In tests a write outside of the page fails an assertion.
fn edit_all(page: &mut PageBuf, size: PageSize, key: &[u8]) {
    let mut bucket = BucketMut::new(page.page_mut());
    let hash = KeyHash::of(key);
    let _ = match bucket.bucket().search(key, hash) {
        Ok(entry) => bucket.replace(entry, key, &[7; 300]),
        Err(place) => bucket.insert(place, hash, key, &[7; 300]),
    };
    if bucket.bucket().count() > 3 {
        bucket.remove(2);
        bucket.remove(0);
    }
    let mut high = PageBuf::new(size);
    bucket.split_into(&mut BucketMut::new(high.page_mut()));
    let _ = bucket.absorb(BucketRef::new(high.page()));
    BucketMut::new(high.page_mut()).copy_content_from(bucket.bucket());
}

/// Tags that lie otherwise than hashes do are found all the same.
#[test]
fn a_search_does_not_rely_on_even_distances() {
    for tags in
        [[0u16; 150], std::array::from_fn(|i| i as u16), std::array::from_fn(|i| !(i as u16))]
    {
        let mut page = new_bucket(PageSize::MIN, Prefix::ALL);
        let mut bucket = BucketMut::new(page.page_mut());
        for (i, tag) in tags.iter().enumerate() {
            let (hash, key) = (KeyHash::new(u64::from(*tag)), (i as u64).to_le_bytes());
            let Err(place) = bucket.bucket().search(&key, hash) else { panic!("{i} is there") };
            bucket.insert(place, hash, &key, &[]).unwrap();
        }
        for (i, tag) in tags.iter().enumerate() {
            let (hash, key) = (KeyHash::new(u64::from(*tag)), (i as u64).to_le_bytes());
            assert!(bucket.bucket().search(&key, hash).is_ok(), "tag {tag} of {i}");
            assert!(bucket.bucket().search(b"other", hash).is_err());
        }
    }
}

#[test]
fn each_fault_is_named() {
    let damage: &[(usize, u8, &str)] = &[
        (4, 32, "this is no bucket"),
        (5, 2, "the page has an unknown layout version"),
        (32, 1, "this is no bucket"),
        (33, 65, "a prefix has more bits than a hash"),
        (33, 1, "the hash of a key does not begin with the prefix"),
        (35, 255, "the slots of a bucket reach into its records"),
        (36, 255, "entries and garbage do not add up to the heap"),
        (38, 1, "entries and garbage do not add up to the heap"),
        (47, 1, "a prefix has bits behind its end"),
        (48, 1, "a key has another hash than its chain"),
        (56, 1, "there is the hash of a chain, and no chain"),
        (64 + 3, 255, "the slots of a bucket are not in order"),
        (64 + 1, 0, "an entry lies outside of the heap"),
    ];
    for (at, byte, fault) in damage {
        let mut page = new_bucket(PageSize::MIN, Prefix::ALL);
        for number in 0..40u64 {
            assert!(put(&mut page, &number.to_le_bytes(), &[3; 20]));
        }
        assert_eq!(BucketRef::new(page.page()).verify_whole(), Ok(()));
        page.bytes_mut()[*at] = *byte;
        assert_eq!(BucketRef::new(page.page()).verify_whole(), Err(*fault), "byte {at}");
    }
}

#[test]
fn four_of_the_longest_entries_fit() {
    for bytes in [4096, 8192, 16384, 32768, 65536] {
        let mut page = new_bucket(PageSize::new(bytes).unwrap(), Prefix::ALL);
        let longest = max_entry_len(bytes as usize);
        for key in 0..4u8 {
            assert!(put(&mut page, &[key], &vec![7; longest - 1]), "{key} of {bytes}");
        }
        assert_eq!(content(&page).len(), 4);
        assert!(!put(&mut page, &[4], &vec![7; longest]));
    }
}
