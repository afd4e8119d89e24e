//! One page: as it should be, torn, damaged or made up.

use polder_format::{PageSize, header_at};
use polder_pool::bytes::PageBuf;
use proptest::prelude::*;

use super::page::{HeapRef, append, copy_rows, init, max_row_len};

fn empty(size: PageSize) -> PageBuf {
    let mut page = PageBuf::new(size);
    init(&mut page.page_mut());
    page
}

fn rows_of(page: &PageBuf) -> Vec<Vec<u8>> {
    let heap = HeapRef::new(page.page());
    let row = |slot| {
        let row = heap.row(slot).unwrap();
        page.bytes()[row.at..row.at + row.len].to_vec()
    };
    (0..heap.count()).map(row).collect()
}

fn filled(size: PageSize, rows: &[Vec<u8>]) -> (PageBuf, Vec<Vec<u8>>) {
    let mut page = empty(size);
    let fit = |row: &&Vec<u8>| append(&mut page.page_mut(), row);
    let there = rows.iter().filter(fit).cloned().collect();
    (page, there)
}

fn sizes() -> impl Strategy<Value = PageSize> {
    prop::sample::select(vec![PageSize::MIN, PageSize::new(8192).unwrap(), PageSize::MAX])
}

fn rows() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let row = prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..300),
        1 => prop::collection::vec(any::<u8>(), 0..9000),
    ];
    prop::collection::vec(row, 0..80)
}

#[test]
fn a_page_takes_as_much_as_there_is_room_for() {
    for size in [PageSize::MIN, PageSize::MAX] {
        let most = max_row_len(size.bytes());
        let mut page = empty(size);
        assert!(!append(&mut page.page_mut(), &vec![1; most + 1]));
        assert!(append(&mut page.page_mut(), &vec![1; most]));
        assert!(!append(&mut page.page_mut(), b""), "there is no room for a slot");
        assert_eq!(HeapRef::new(page.page()).verify_shape(), Ok(()));
        assert_eq!(rows_of(&page), [vec![1; most]]);

        let mut page = empty(size);
        let count = (0..).take_while(|_| append(&mut page.page_mut(), b"")).count();
        assert_eq!((count, rows_of(&page).len()), (most / 4 + 1, most / 4 + 1));
        assert_eq!(HeapRef::new(page.page()).verify_shape(), Ok(()));
    }
}

proptest! {
    #[test]
    fn what_was_appended_is_there(size in sizes(), rows in rows()) {
        let (page, there) = filled(size, &rows);
        prop_assert_eq!(HeapRef::new(page.page()).verify_shape(), Ok(()));
        prop_assert_eq!(&rows_of(&page), &there);

        // A copy has the rows and nothing of what lies between rows and slots.
        let mut dirty = PageBuf::new(size);
        dirty.bytes_mut().fill(0xAA);
        dirty.copy_from(page.page());
        let hole = HeapRef::new(page.page()).hole();
        dirty.bytes_mut()[hole.clone()].fill(0xBB);
        let mut copy = PageBuf::new(size);
        copy_rows(&mut copy.page_mut(), dirty.page());
        prop_assert_eq!(rows_of(&copy), there);
        prop_assert!(copy.bytes()[hole].iter().all(|byte| *byte == 0));
    }

    /// The pieces that are logged, done in their order to the page as it was, give what it became.
    #[test]
    fn the_pieces_are_the_change(size in sizes(), rows in rows(), row: Vec<u8>) {
        let (mut page, _) = filled(size, &rows);
        let before = page.bytes().to_vec();
        let heap = HeapRef::new(page.page());
        let Some(change) = heap.to_append(&row) else { return Ok(()) };
        let mut redone = before;
        for (at, bytes) in change.pieces() {
            redone[at..at + bytes.len()].copy_from_slice(bytes);
        }
        prop_assert_eq!(change.slot, heap.count());
        change.write(&mut page.page_mut());
        // Where the header says which lines have changed, it does so of the page in memory alone.
        page.bytes_mut()[header_at::CHANGED_LINES..][..8].fill(0);
        redone[header_at::CHANGED_LINES..][..8].fill(0);
        prop_assert!(page.bytes() == redone);
    }

    #[test]
    fn a_damaged_page_is_refused_or_can_be_used(
        size in sizes(),
        rows in rows(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..4),
        row: Vec<u8>,
    ) {
        let (mut page, _) = filled(size, &rows);
        for (at, byte, region) in damage {
            // Most of it where it hurts: header and slots.
            let at = match region {
                0 => at.index(40),
                1 => size.bytes() - 1 - at.index(4 * rows.len() + 4),
                _ => at.index(size.bytes()),
            };
            page.bytes_mut()[at] = byte;
        }
        read_all(&page);
        let sound = HeapRef::new(page.page()).verify_shape().is_ok();
        // Also a page that is not sound must not be written outside of: that fails an assertion.
        let before = if sound { rows_of(&page) } else { Vec::new() };
        let fits = append(&mut page.page_mut(), &row);
        read_all(&page);
        if sound {
            prop_assert_eq!(HeapRef::new(page.page()).verify_shape(), Ok(()));
            let expected = before.into_iter().chain(fits.then_some(row)).collect::<Vec<_>>();
            prop_assert_eq!(rows_of(&page), expected);
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(size in sizes(), seed: u64, fill: u8) {
        let mut page = PageBuf::new(size);
        page.bytes_mut().fill(fill);
        read_all(&page);
        polder_testkit::Random::new(seed).fill(page.bytes_mut());
        read_all(&page);
        append(&mut page.page_mut(), &[1; 50]);
    }
}

/// Calls every reader. Whatever comes back is inside of the page.
fn read_all(page: &PageBuf) {
    let heap = HeapRef::new(page.page());
    let size = page.page().size();
    let _ = (heap.is_heap(), heap.verify_shape());
    let hole = heap.hole();
    assert!(hole.start <= size && hole.end <= size);
    assert!(4 * heap.count() < size);
    for slot in 0..heap.count() + 2 {
        if let Some(row) = heap.row(slot) {
            assert!(slot < heap.count() && row.at + row.len <= size);
        }
    }
}

#[test]
fn each_fault_is_named() {
    let reach = "the rows of a heap page reach into its slots";
    let begin = "a row of a heap page does not begin where the one before it ends";
    let damage: &[(usize, u8, &str)] = &[
        (header_at::LAYOUT, 2, "the heap page has an unknown layout version"),
        (33, 255, reach),
        (35, 1, reach),
        (37, 255, reach),
        (32, 41, "the rows of a heap page do not end where it says"),
        (36, 2, "the rows of a heap page do not end where it says"),
        (36, 4, begin),
        (4096 - 4, 39, begin),
        (4096 - 2, 101, begin),
        (4096 - 7, 255, begin),
        (4096 - 11, 9, begin),
        (4096 - 10, 99, "the rows of a heap page do not end where it says"),
    ];
    for (at, byte, fault) in damage {
        let (mut page, _) = filled(PageSize::MIN, &[vec![1; 100], vec![2; 100], vec![3; 100]]);
        assert_eq!(HeapRef::new(page.page()).verify_shape(), Ok(()));
        page.bytes_mut()[*at] = *byte;
        assert_eq!(HeapRef::new(page.page()).verify_shape(), Err(*fault), "byte {at}");
    }
    let mut page = empty(PageSize::MIN);
    page.bytes_mut()[32] -= 1;
    assert_eq!(HeapRef::new(page.page()).verify_shape(), Err(reach));
}
