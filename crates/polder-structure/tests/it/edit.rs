//! Edits: all of one or nothing of it, for other threads and after errors.

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use polder_format::{
    ChecksumSeed, PAGE_HEADER_BYTES, PageKind, PageNo, PageSize, StoreId, header_at,
};
use polder_pool::bytes::PageRef;
use polder_pool::{
    AccessHint, Array, ArraySwizzled, Hash, KindOps, LinkRef, OwnedLinks, Pool, PoolConfig,
    PoolError, Predictive, ReadMode, Space, Swizzle, Translation, Vm,
};
use polder_structure::edit;
use polder_structure::edit::MOST_PAGES;
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_testkit::recovery::MemoryLog;
use polder_testkit::{FaultPlan, Random, SimDisk};

const AT: usize = PAGE_HEADER_BYTES;
/// A page whose first number is not above a thousand million.
const NUMBERS: KindOps = KindOps::plain(PageKind(200), "numbers", |page| {
    if page.u64(AT) > 1_000_000_000 { Err("the number is too large") } else { Ok(()) }
});

/// A page that owns another one, or none.
const ITEM: KindOps = KindOps {
    links: Some(OwnedLinks { count: |_| 1, offset: |_, _| AT, fits: |_, _, _| Ok(()) }),
    ..KindOps::plain(PageKind(201), "item", |_| Ok(()))
};

fn space<T: Translation>(read_mode: ReadMode) -> Space<T> {
    let budget = PoolConfig::least_budget(PageSize::MIN);
    let seed = ChecksumSeed::new(StoreId([1; 16]));
    let config = PoolConfig { read_mode, ..PoolConfig::new(budget, PageSize::MIN, seed) };
    // What is changed and not logged is found out where there is a log.
    let config = Arc::<MemoryLog>::default().behind(config);
    let device = Box::new(SimDisk::new(FaultPlan::new(1)));
    Pool::<T>::open(device, &config, &[NUMBERS, ITEM]).unwrap().create_space().unwrap()
}

fn make<T: Translation>(space: &Space<T>, count: u64) -> Vec<PageNo> {
    let made = edit(space, |edit| (0..count).map(|_| edit.create(NUMBERS.kind)).collect());
    made.unwrap()
}

fn number<T: Translation>(space: &Space<T>, page: PageNo) -> u64 {
    edit(space, |edit| Ok(edit.page(page)?.u64(AT))).unwrap()
}

/// Threads move amounts between pages, others add them up, on the least pool: the sum stays.
fn transfers<T: Translation>(read_mode: ReadMode) {
    let space = space::<T>(read_mode);
    let pages = make(&space, 12);
    edit(&space, |edit| {
        pages.iter().try_for_each(|page| edit.page_mut(*page).map(|mut page| page.set_u64(AT, 500)))
    })
    .unwrap();
    // What makes the pages go and come.
    let others: Vec<_> = (0..20).flat_map(|_| make(&space, 20)).collect();
    thread::scope(|scope| {
        let (space, pages, others) = (&space, &pages, &others);
        for thread in 0..3usize {
            scope.spawn(move || {
                for i in 0..300 {
                    let (from, to) = (pages[(i * 5 + thread) % 12], pages[(i * 7 + thread) % 12]);
                    if from == to {
                        continue;
                    }
                    edit(space, |edit| {
                        if i % 2 == 0 {
                            // Without copies.
                            let there = edit.read(from, |page| page.u64(AT))?;
                            let moved = there.min(3);
                            edit.write(from, AT, (there - moved).to_le_bytes().to_vec())?;
                            let there = edit.read(to, |page| page.u64(AT))?;
                            return edit.write(to, AT, (there + moved).to_le_bytes().to_vec());
                        }
                        let there = edit.page(from)?.u64(AT);
                        let moved = there.min(3);
                        edit.page_mut(from)?.set_u64(AT, there - moved);
                        let there = edit.page(to)?.u64(AT);
                        edit.page_mut(to)?.set_u64(AT, there + moved);
                        Ok(())
                    })
                    .unwrap();
                    number(space, others[(i * 37 + thread * 100) % others.len()]);
                }
            });
        }
        scope.spawn(move || {
            for i in 0..200 {
                let sum = edit(space, |edit| {
                    pages.iter().try_fold(0, |sum, page| match i % 2 {
                        0 => Ok(sum + edit.read(*page, |page| page.u64(AT))?),
                        _ => Ok(sum + edit.page(*page)?.u64(AT)),
                    })
                });
                assert_eq!(sum.unwrap(), 12 * 500);
            }
        });
    });
}

#[test]
fn an_edit_is_seen_as_a_whole() {
    transfers::<Array>(ReadMode::Optimistic);
    transfers::<Array>(ReadMode::Shared);
    transfers::<Array>(ReadMode::Copy);
    transfers::<Swizzle>(ReadMode::Optimistic);
    if EVERY_TRANSLATION {
        transfers::<Hash>(ReadMode::Optimistic);
        transfers::<Predictive>(ReadMode::Optimistic);
        transfers::<ArraySwizzled>(ReadMode::Core);
        transfers::<Vm>(ReadMode::Optimistic);
    }
}

/// An operation decides on a page that it was given to change and leaves as it was; meanwhile another
/// thread changes that page, so the decision is taken again.
fn decision<T: Translation>(read_mode: ReadMode) {
    let space = space::<T>(read_mode);
    let pages = make(&space, 2);
    let mut tries = 0;
    edit(&space, |edit| {
        let seen = edit.page_mut(pages[0])?.u64(AT);
        edit.page_mut(pages[1])?.set_u64(AT, seen + 1);
        tries += 1;
        if tries == 1 {
            let other = || {
                polder_structure::edit(&space, |edit| {
                    edit.page_mut(pages[0])?.set_u64(AT, 7);
                    Ok(())
                })
            };
            thread::scope(|scope| scope.spawn(other).join().unwrap()).unwrap();
        }
        Ok(())
    })
    .unwrap();
    assert_eq!((number(&space, pages[0]), number(&space, pages[1])), (7, 8), "{tries} tries");
}

#[test]
fn a_page_that_was_to_be_changed_and_was_not_is_validated() {
    decision::<Array>(ReadMode::Optimistic);
    decision::<Swizzle>(ReadMode::Optimistic);
    if EVERY_TRANSLATION {
        decision::<Hash>(ReadMode::Optimistic);
        decision::<Predictive>(ReadMode::Optimistic);
        decision::<Vm>(ReadMode::Optimistic);
    }
}

/// An operation decides on what it has read of a page, and on what it has written to another one without
/// having read it; meanwhile another thread changes one of the two.
#[test]
fn a_page_without_a_copy_is_validated() {
    for changed in 0..2 {
        let space = space::<Array>(ReadMode::Optimistic);
        let pages = make(&space, 2);
        let mut tries = 0;
        edit(&space, |edit| {
            let seen = edit.read(pages[0], |page| page.u64(AT))?;
            edit.write(pages[1], AT, (seen + 1).to_le_bytes().to_vec())?;
            tries += 1;
            if tries == 1 {
                let write = || {
                    polder_structure::edit(&space, |edit| {
                        edit.write(pages[changed], AT, vec![7])?;
                        edit.write(pages[changed], AT + 8, vec![9])
                    })
                };
                thread::scope(|scope| scope.spawn(write).join().unwrap()).unwrap();
            }
            Ok(())
        })
        .unwrap();
        let seen = [7, 0][changed];
        assert_eq!((number(&space, pages[0]), number(&space, pages[1])), (seen, seen + 1));
        let kept = edit(&space, |edit| edit.read(pages[changed], |page| page.u64(AT + 8)));
        assert_eq!((kept.unwrap(), tries), (9, 2));
    }
}

/// What an operation writes is there by the time that it ends, because another thread has written it, which
/// has changed as well what the operation had read.
#[test]
fn a_write_that_changes_nothing_is_validated() {
    let space = space::<Array>(ReadMode::Optimistic);
    let pages = make(&space, 2);
    let mut tries = 0;
    let seen = edit(&space, |edit| {
        let seen = edit.read(pages[0], |page| page.u64(AT))?;
        edit.write(pages[1], AT, vec![7])?;
        tries += 1;
        if tries == 1 {
            let both = || {
                polder_structure::edit(&space, |edit| {
                    pages.iter().try_for_each(|page| edit.write(*page, AT, vec![7]))
                })
            };
            thread::scope(|scope| scope.spawn(both).join().unwrap()).unwrap();
        }
        Ok(seen)
    });
    assert_eq!((seen.unwrap(), tries), (7, 2));
}

/// Reads and writes of some bytes, and of pages as a whole, in any order, beside the same in memory.
#[test]
fn some_bytes_are_read_and_written_as_a_whole_page_is() {
    let space = space::<Array>(ReadMode::Optimistic);
    let pages = make(&space, 3);
    let mut model = vec![[0_u8; 4096]; 3];
    let mut random = Random::new(7);
    let mut below = |limit| random.index(limit);
    let mut refused = 0;
    for round in 0..2000 {
        let mut becomes = model.clone();
        let steps: Vec<_> = (0..1 + below(6))
            .map(|_| {
                // Few places and bytes, so that writes meet and undo each other; and sometimes the number is
                // too large.
                let (page, action, long) = (below(3), below(5), 1 + below(30));
                let at = [AT + 8 + below(40), 4096 - long, AT]
                    [[0, 0, 0, 0, 0, 0, 0, 1, 1, 2][below(10)]];
                (page, action, at, vec![below(3) as u8; long])
            })
            .collect();
        let tried = edit(&space, |edit| {
            becomes.clone_from(&model);
            for (page, action, at, bytes) in &steps {
                let (number, end) = (pages[*page], at + bytes.len());
                let expected = &mut becomes[*page];
                match action {
                    0 => edit.page_mut(number)?.write(*at, bytes),
                    1 | 2 => edit.write(number, *at, bytes.clone())?,
                    3 => {
                        let seen = edit.read(number, |page| bytes_of(page, *at..end))?;
                        assert_eq!(seen, expected[*at..end], "round {round}");
                        continue;
                    }
                    _ => {
                        let seen = bytes_of(edit.page(number)?, AT..4096);
                        assert_eq!(seen, expected[AT..], "round {round}");
                        continue;
                    }
                }
                expected[*at..end].copy_from_slice(bytes);
            }
            Ok(())
        });
        let first = |page: &[u8; 4096]| u64::from_le_bytes(*page[AT..].first_chunk().unwrap());
        match becomes.iter().any(|page| first(page) > 1_000_000_000) {
            true => {
                assert!(matches!(tried, Err(PoolError::Structure { .. })), "{tried:?}");
                refused += 1;
            }
            false => {
                tried.unwrap();
                model = becomes;
            }
        }
        for (page, expected) in pages.iter().zip(&model) {
            let seen = edit(&space, |edit| edit.page(*page).map(|page| bytes_of(page, AT..4096)));
            assert_eq!(seen.unwrap(), expected[AT..], "round {round}");
        }
    }
    assert!((200..1800).contains(&refused), "{refused}");
}

fn bytes_of(page: PageRef<'_>, range: Range<usize>) -> Vec<u8> {
    let mut bytes = Vec::new();
    page.append_to(range.start, range.len(), &mut bytes);
    bytes
}

/// What an operation finds wrong in a page is wrong, also where another thread changes the page while it
/// reads it without a copy.
#[test]
fn half_of_a_change_is_not_seen() {
    let space = space::<Array>(ReadMode::Optimistic);
    let page = make(&space, 1)[0];
    let write = || {
        edit(&space, |edit| {
            edit.write(page, AT, vec![7])?;
            edit.write(page, 4000, vec![7])
        })
    };
    let mut tries = 0;
    let seen = edit(&space, |edit| {
        tries += 1;
        let read = edit.read(page, |page| {
            let one = page.u64(AT);
            if tries == 1 {
                thread::scope(|scope| scope.spawn(write).join().unwrap()).unwrap();
            }
            (one, page.u64(4000))
        })?;
        if read.0 == read.1 { Ok(read) } else { Err(edit.fail("half of a change was seen")) }
    });
    assert_eq!((seen.unwrap(), tries), ((7, 7), 2));
}

/// A page is written to that owns another one, whose frame a translation may have put into it.
fn owner<T: Translation>() {
    let space = space::<T>(ReadMode::Optimistic);
    let (first, last) = (space.create().unwrap(), space.create().unwrap());
    let ids = [first.id(), last.id()];
    let filled = space.run(AccessHint::Normal, |_| {
        for (new, next) in [(&first, ids[1].to_bits()), (&last, 0)] {
            let mut held = new.latch()?;
            held.set_unlogged();
            let mut page = held.page_mut();
            page.set_u8(header_at::KIND, ITEM.kind.0);
            page.set_u8(header_at::LAYOUT, 1);
            page.set_u64(AT, next);
        }
        Ok(())
    });
    filled.unwrap();
    space.link(&ids.map(|id| id.page())).unwrap();
    drop((first, last));
    let [first, last] = ids.map(|id| id.page());
    let is_swizzled = (0..10).any(|_| {
        let followed = space.run(AccessHint::Normal, |attempt| {
            let page = space.root(attempt, first)?;
            let next = space.follow(attempt, LinkRef::InPage(page.page(), AT), Some(&page))?;
            next.validate()?;
            page.validate()?;
            Ok(page.page().u64(AT) != ids[1].to_bits())
        });
        followed.unwrap()
    });
    assert_eq!(is_swizzled, T::NAME.contains("swizzle"), "{}", T::NAME);
    edit(&space, |edit| edit.write(first, AT + 8, vec![7; 8])).unwrap();
    let seen = edit(&space, |edit| {
        Ok((edit.page(first)?.u64(AT), edit.page(first)?.u64(AT + 8), edit.page(last)?.u64(AT)))
    });
    assert_eq!(seen.unwrap(), (ids[1].to_bits(), u64::from_le_bytes([7; 8]), 0));
}

#[test]
fn a_page_that_owns_another_one() {
    owner::<Array>();
    owner::<Swizzle>();
}

/// What an operation writes lies behind the header, and in the page.
#[test]
fn nothing_is_written_outside_of_a_page() {
    let space = space::<Array>(ReadMode::Optimistic);
    let page = make(&space, 1)[0];
    for (at, len) in [(0, 4), (PAGE_HEADER_BYTES - 1, 2), (4090, 7), (usize::MAX, 2)] {
        let written = edit(&space, |edit| edit.write(page, at, vec![1; len]));
        assert!(matches!(written, Err(PoolError::Broken { .. })), "{at}: {written:?}");
    }
    edit(&space, |edit| edit.write(page, 4090, vec![1; 6])).unwrap();
}

/// Pages of a run lie next to each other, where there is room for them; what is not used is free again.
#[test]
fn pages_of_a_run_lie_next_to_each_other() {
    let space = space::<Array>(ReadMode::Optimistic);
    let pages = make(&space, 10);
    edit(&space, |edit| {
        edit.free(pages[3])?;
        edit.free(pages[6])
    })
    .unwrap();
    let run = edit(&space, |edit| edit.create_run(NUMBERS.kind, 5)).unwrap();
    assert_eq!(run.len(), 5);
    assert!(run.windows(2).all(|pair| pair[0].get() + 1 == pair[1].get()), "{run:?}");
    let before = space.used_pages().unwrap();
    let failed = edit(&space, |edit| {
        edit.create_run(NUMBERS.kind, 4)?;
        Err::<(), _>(edit.fail(PoolError::Limit { what: "the test", limit: 0 }))
    });
    assert!(failed.is_err());
    assert_eq!(space.used_pages().unwrap(), before);
    // Behind the run, in front of nothing else, as if nothing had been made.
    let next = edit(&space, |edit| edit.create_run(NUMBERS.kind, 4)).unwrap();
    assert!(next.windows(2).all(|pair| pair[0].get() + 1 == pair[1].get()), "{next:?}");
    assert_eq!(next[0].get(), run[4].get() + 1);
    // The holes are filled one by one.
    assert_eq!(make(&space, 1), [pages[3]]);
    assert_eq!(make(&space, 1), [pages[6]]);
    let most = edit(&space, |edit| edit.create_run(NUMBERS.kind, MOST_PAGES + 1));
    assert!(matches!(most, Err(PoolError::Limit { .. })));
}

#[test]
fn what_fails_leaves_nothing_behind() {
    let space = space::<Array>(ReadMode::Optimistic);
    let page = make(&space, 1)[0];
    let before = space.used_pages().unwrap();
    let failed = edit(&space, |edit| {
        edit.page_mut(page)?.set_u64(AT, 7);
        let new = edit.create(NUMBERS.kind)?;
        edit.page_mut(new)?.set_u64(AT, 8);
        Err::<(), _>(edit.fail("not today"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "not today");
    // Pages that could not be loaded again: by what lies in them, and without a kind.
    let refused = edit(&space, |edit| {
        edit.page_mut(page)?.set_u64(AT, u64::MAX);
        Ok(())
    });
    assert!(matches!(refused, Err(PoolError::Structure { .. })), "{refused:?}");
    assert!(edit(&space, |edit| edit.create(PageKind(0))).is_err());
    let many =
        edit(&space, |edit| (0..=MOST_PAGES).try_for_each(|_| edit.create(NUMBERS.kind).map(drop)));
    assert!(matches!(many, Err(PoolError::Limit { .. })), "{many:?}");
    assert_eq!((number(&space, page), space.used_pages().unwrap()), (0, before));
}

#[test]
fn pages_come_and_go() {
    let space = space::<Swizzle>(ReadMode::Optimistic);
    let pages = make(&space, 3);
    let new = edit(&space, |edit| {
        edit.free(pages[1])?;
        let not_kept = edit.create(NUMBERS.kind)?;
        edit.free(not_kept)?;
        let new = edit.create(NUMBERS.kind)?;
        edit.page_mut(new)?.set_u64(4088, 9);
        Ok(new)
    })
    .unwrap();
    let mut used = vec![pages[0], pages[2], new];
    used.sort_unstable();
    assert_eq!(space.used_pages().unwrap(), used);
    let last = edit(&space, |edit| Ok(edit.page(new)?.u64(4088))).unwrap();
    assert_eq!(last, 9);
    let again = edit(&space, |edit| {
        edit.free(new)?;
        edit.page(new).map(drop)
    });
    assert!(matches!(again, Err(PoolError::Broken { .. })), "{again:?}");
    // What was given back is given out again.
    assert_eq!(make(&space, 1), [pages[1]]);
    space.drop_space().unwrap();
    let gone = edit(&space, |edit| edit.page(new).map(drop));
    assert!(matches!(gone, Err(PoolError::Dropped { .. })), "{gone:?}");
}

/// A thread keeps copies of pages for its next edits: those of another pool may have another size, and a new
/// page has nothing of what was in one.
#[test]
fn nothing_is_left_of_what_a_thread_has_edited_before() {
    let of_size = |bytes: u32| {
        let size = PageSize::new(bytes).unwrap();
        let config = polder_testkit::pools::config(1, size, polder_pool::FileState::NEW);
        let device = Box::new(polder_testkit::pools::disk());
        Pool::<Array>::open(device, &config, &[NUMBERS]).unwrap().create_space().unwrap()
    };
    for sizes in [[4096, 16384], [16384, 4096]] {
        for space in sizes.map(of_size) {
            // More than have been kept since the size changed.
            let pages = make(&space, 12);
            let bytes = space.page_size().bytes();
            for round in 0..3 {
                edit(&space, |edit| {
                    for page in &pages {
                        assert_eq!(edit.page(*page)?.size(), bytes);
                        let mut page = edit.page_mut(*page)?;
                        page.set_u64(AT, round);
                        page.set_u64(bytes - 8, u64::MAX);
                    }
                    Ok(())
                })
                .unwrap();
            }
            let new = make(&space, 1)[0];
            let words = edit(&space, |edit| {
                let page = edit.page(new)?;
                Ok((AT..bytes).step_by(8).map(|at| page.u64(at)).filter(|word| *word != 0).count())
            });
            assert_eq!(words.unwrap(), 0);
            assert_eq!(number(&space, pages[0]), 2);
        }
    }
}
