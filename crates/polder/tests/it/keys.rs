//! What keys, values and bounds may be written as: that this compiles is most of the test.

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

use polder::{KeyRange, Table, WriteBatch};

use crate::support::*;

/// A table with the keys `a` to `z`.
fn letters() -> (tempfile::TempDir, Table) {
    let dir = tempfile::tempdir().unwrap();
    let store = polder::Store::open(quick(dir.path().join("s"))).unwrap();
    let table = store.open_table("letters").unwrap();
    table.bulk_load((b'a'..=b'z').map(|letter| ([letter], [letter; 3]))).unwrap();
    (dir, table)
}

fn found(table: &Table, bounds: impl KeyRange) -> String {
    table.range(bounds).map(|entry| char::from(entry.unwrap().0[0])).collect()
}

#[test]
fn bounds_of_every_shape_need_no_type() {
    let (_dir, table) = letters();
    let all: String = ('a'..='z').collect();
    let (vec, array, slice) = (b"e".to_vec(), *b"e", b"e".as_slice());
    let string = String::from("e");
    assert_eq!(found(&table, ..), all);
    assert_eq!(found(&table, "a".."c"), "ab");
    assert_eq!(found(&table, "a"..="c"), "abc");
    assert_eq!(found(&table, .."c"), "ab");
    assert_eq!(found(&table, ..="c"), "abc");
    assert_eq!(found(&table, "x"..), "xyz");
    assert_eq!(found(&table, b"x"..), "xyz");
    assert_eq!(found(&table, b"x".as_slice()..), "xyz");
    assert_eq!(found(&table, [b'x']..), "xyz");
    assert_eq!(found(&table, vec.clone()..=vec.clone()), "e");
    assert_eq!(found(&table, &vec..=&vec), "e");
    assert_eq!(found(&table, &vec[..]..=&vec[..]), "e");
    assert_eq!(found(&table, array..=array), "e");
    assert_eq!(found(&table, &array..=&array), "e");
    assert_eq!(found(&table, slice..=slice), "e");
    assert_eq!(found(&table, string.as_str()..=&string), "e");
    assert_eq!(found(&table, string.clone()..=string), "e");
    assert_eq!(found(&table, (Bound::Excluded("x"), Bound::Unbounded)), "yz");
    assert_eq!(found(&table, (Bound::Excluded(&vec), Bound::Included(&vec))), "");
    assert_eq!(found(&table, (Bound::<Vec<u8>>::Unbounded, Bound::Unbounded)), all);
    // Bounds that contain nothing, and one that was used up.
    assert_eq!(found(&table, "c".."a"), "");
    assert_eq!(found(&table, 9u64.to_be_bytes()..2u64.to_be_bytes()), "");
    // Without a function of one's own in between.
    assert_eq!(table.range(..).rev().count(), 26);
    assert_eq!(table.range("a".."c").count(), 2);
    assert_eq!((&table).into_iter().count(), 26);
}

/// A key of an application.
struct Letter(char);

impl AsRef<[u8]> for Letter {
    fn as_ref(&self) -> &[u8] {
        std::slice::from_ref(match self.0 {
            'a' => &b'a',
            _ => &b'b',
        })
    }
}

#[test]
fn keys_and_values_are_whatever_has_bytes() {
    let (_dir, table) = letters();
    let (vec, string) = (b"a".to_vec(), String::from("a"));
    let aaa = Some(b"aaa".to_vec());
    assert_eq!(table.get("a").unwrap(), aaa);
    assert_eq!(table.get(b"a").unwrap(), aaa);
    assert_eq!(table.get([b'a']).unwrap(), aaa);
    assert_eq!(table.get(&vec).unwrap(), aaa);
    assert_eq!(table.get(&vec[..]).unwrap(), aaa);
    assert_eq!(table.get(&string).unwrap(), aaa);
    assert_eq!(table.get(Letter('a')).unwrap(), aaa);
    assert_eq!(table.get(Cow::Borrowed(&b"a"[..])).unwrap(), aaa);
    assert_eq!(table.get(Arc::<[u8]>::from(&b"a"[..])).unwrap(), aaa);
    assert_eq!(table.get_with("a", <[u8]>::len).unwrap(), Some(3));
    assert_eq!(
        table.get_with::<String>("b", |b| b.escape_ascii().to_string()).unwrap().unwrap(),
        "bbb"
    );

    assert_eq!(table.insert("kk", "v").unwrap(), None);
    assert_eq!(table.insert(b"kk", [0; 2]).unwrap(), Some(b"v".to_vec()));
    assert_eq!(table.insert(string, vec).unwrap(), aaa);
    assert!(!table.put(Letter('a'), String::new()).unwrap());
    assert!(table.put(1u64.to_be_bytes(), 1.5f32.to_le_bytes()).unwrap());
    assert_eq!(table.remove(Letter('b')).unwrap(), Some(b"bbb".to_vec()));
    assert!(table.delete("c").unwrap() && !table.delete("c").unwrap());

    let mut batch = WriteBatch::new();
    batch.expect(&table, "d", table.version("d").unwrap()).put(&table, "d", [1, 2]);
    batch.delete(&table, b"e").put(&table, Letter('b'), String::from("b")).tag("tag");
    table.store().apply(batch).unwrap();
    assert_eq!(table.get("d").unwrap(), Some(vec![1, 2]));
    assert_eq!(table.prefix("b").chain(table.prefix(b"d")).count(), 2);
}

/// Each entry goes to one of those who take entries from the ends.
#[test]
fn each_entry_is_popped_once() {
    let (_dir, table) = letters();
    table.bulk_load([("", "")]).unwrap_err();
    for i in 0..500u32 {
        table.put(i.to_be_bytes(), "").unwrap();
    }
    let pop = |table: &Table, first: bool| {
        let mut popped = Vec::new();
        while let Some((key, _)) = if first { table.pop_first() } else { table.pop_last() }.unwrap()
        {
            assert!(popped.last().is_none_or(|last| (*last < key) == first));
            popped.push(key);
        }
        popped
    };
    let mut all = std::thread::scope(|scope| {
        let table = &table;
        let work = |i: u32| scope.spawn(move || pop(table, i.is_multiple_of(2)));
        let threads: Vec<_> = (0..4).map(work).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    all.sort_unstable();
    let letters = (b'a'..=b'z').map(|letter| vec![letter]);
    let mut expected: Vec<_> =
        (0..500u32).map(|i| i.to_be_bytes().to_vec()).chain(letters).collect();
    expected.sort_unstable();
    assert_eq!(all, expected);
    assert_eq!((table.len(), table.pop_first().unwrap()), (0, None));
}
