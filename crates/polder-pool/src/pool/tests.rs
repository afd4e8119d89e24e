//! Pools on machines with several nodes: made-up ones, and this one if it is such a machine.
//!
//! `scripts/numa` runs these tests in a guest with two nodes.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::ptr::NonNull;
use std::thread;
use std::time::Duration;

use polder_format::{PageId, PageNo, PageSize};
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_testkit::if_built;

use crate::frame::partitions::PartitionNo;
use crate::latch::FrameId;
use crate::machine::policy::{self, NodeId};
use crate::machine::{HUGE_PAGE_BYTES, Mapping, Nodes, kernel_page_bytes};
use crate::testing::{create, pool_in, pool_on, prefaulted_on, stay_on};
use crate::translation::PageMemory;
use crate::{
    AccessHint, Array, ArraySwizzled, Hash, LinkRef, Migration, Pool, PoolConfig, PoolError,
    Predictive, Simd, SimdPlain, Space, Swizzle, Tier, TierConfig, Translation, Vm,
};

/// Enough for two pieces of 2 MiB, which is the least for two partitions.
const BUDGET: u64 = 6 << 20;

/// Two nodes; all threads run on this one.
fn all_on(home: usize) -> Nodes {
    Nodes::invented(&[home], &[1, 1])
}

/// Two nodes that share out the cores of this machine.
fn shared() -> Nodes {
    Nodes::invented(&[0, 1], &[1, 1])
}

/// Where the test keeps a number in a page.
const NUMBER_AT: usize = 2000;

fn write<T: Translation>(space: &Space<T>, page: PageNo, number: u64) {
    let done = space.run(AccessHint::Normal, |attempt| {
        let found = space.follow(attempt, LinkRef::Id(PageId::new(space.id(), page)), None)?;
        attempt.upgrade(found)?.page_mut().set_u64(NUMBER_AT, number);
        Ok(())
    });
    done.unwrap();
}

/// What is kept in a page, and where the page lies.
fn read<T: Translation>(space: &Space<T>, page: PageNo) -> (u64, NonNull<u8>, FrameId) {
    let found = space.run(AccessHint::Normal, |attempt| {
        let found = space.follow(attempt, LinkRef::Id(PageId::new(space.id(), page)), None)?;
        let (number, at) = (found.page().u64(NUMBER_AT), found.page().base());
        found.validate()?;
        let cell = space.shared().state_of(space.space_core(), page);
        Ok((number, at, cell.map_or(FrameId::NONE, |cell| cell.read().frame())))
    });
    found.unwrap()
}

fn frames_of<T: Translation>(pool: &Pool<T>) -> Vec<u64> {
    pool.stats().nodes.iter().map(|node| node.frames).collect()
}

#[test]
fn a_thread_takes_frames_of_its_node_then_others_and_then_none() {
    for home in [0, 1] {
        let (_dir, pool) = pool_on::<Hash>(all_on(home), BUDGET);
        let (shared, by_node) = (pool.shared(), frames_of(&pool));
        let total: u64 = by_node.iter().sum();
        assert_eq!((by_node.len(), total), (2, pool.stats().frames));
        let taken: Vec<FrameId> = (0..total)
            .map(|_| shared.take_frame(None, shared.core.frames.here()).unwrap())
            .collect();
        for (i, frame) in (0..).zip(&taken) {
            let expected = if i < by_node[home] { home } else { 1 - home };
            assert_eq!(shared.core.frames.free.of(*frame), PartitionNo::new(expected), "{i}");
        }
        assert!(matches!(
            shared.take_frame(None, shared.core.frames.here()),
            Err(PoolError::Exhausted { .. })
        ));
        taken.into_iter().for_each(|frame| shared.give_frame(frame));
        let stats = pool.stats();
        assert!(stats.nodes.iter().all(|node| node.frames_free == node.frames));
    }
}

#[test]
fn pages_lie_near_unless_they_prefer_to_lie_elsewhere() {
    fn taken<T: Translation>(home: usize, pages: u64) -> (u64, u64) {
        let (_dir, pool) = pool_on::<T>(all_on(home), BUDGET);
        let space = pool.create_space().unwrap();
        let made: Vec<PageNo> = (0..pages).map(|_| create(&space)).collect();
        let stats = pool.stats();
        assert_eq!(stats.frames_taken_near + stats.frames_taken_far, stats.resident_pages);
        for page in made {
            let near =
                pool.shared().core.frames.free.of(read(&space, page).2) == PartitionNo::new(home);
            assert!(near || stats.frames_taken_far > 0);
        }
        (stats.frames_taken_near, stats.frames_taken_far)
    }
    for home in [0, 1] {
        let is_near = |(near, far)| assert!(near > 100 && far == 0, "{near}, {far}");
        is_near(taken::<Hash>(home, 100));
        if EVERY_TRANSLATION {
            is_near(taken::<SimdPlain>(home, 100));
        }
    }
    // Neighbours prefer neighbours: wherever that is, it is far from one of both nodes.
    let (here, there) = (taken::<Array>(0, 100), taken::<Array>(1, 100));
    assert!(here.1.max(there.1) >= 50, "{here:?}, {there:?}");
}

#[test]
fn what_is_evicted_serves_the_node_first() {
    let (_dir, pool) = pool_on::<Hash>(shared(), BUDGET);
    let space = pool.create_space().unwrap();
    let frames = pool.stats().frames;
    let pages: Vec<PageNo> = (0..frames * 3).map(|_| create(&space)).collect();
    let before = pool.stats();
    assert!(before.evictions > frames);
    // Every core in turn, if there are several.
    for core in 0..2 {
        thread::scope(|scope| {
            let (space, pages) = (&space, &pages);
            scope.spawn(move || {
                if stay_on(core) {
                    pages.iter().for_each(|page| _ = read(space, *page));
                }
            });
        });
    }
    let after = pool.stats();
    let near = after.frames_taken_near - before.frames_taken_near;
    let far = after.frames_taken_far - before.frames_taken_far;
    // The nodes take all frames by turns, and victims are of both: half could be far.
    assert!(near > frames && near > far / 2, "{near} near, {far} far");
    let reserve = pool.shared().reserve_of(crate::tier::TierNo::FIRST);
    assert!(after.frames_free <= 2 * reserve.high as u64 + 128, "{after:?}");
}

#[test]
fn a_pool_too_small_for_two_nodes_has_one_partition() {
    let (_dir, pool) = pool_on::<Array>(all_on(1), PoolConfig::least_budget(PageSize::MIN));
    assert_eq!((frames_of(&pool), pool.shared().core.frames.free.count()), (vec![], 1));
    let space = pool.create_space().unwrap();
    (0..300).for_each(|_| _ = create(&space));
    assert_eq!((pool.stats().frames_taken_near, pool.stats().frames_taken_far), (0, 0));
}

/// PART-1: each frame has a page or is free, in its own partition.
fn check_free_frames<T: Translation>(pool: &Pool<T>) {
    let core = &pool.shared().core;
    for frame in core.frames.memory.ids() {
        assert!(
            !core.frames.free.is_free(frame) || core.latches.meta(frame).page().is_null(),
            "{frame:?}"
        );
    }
    let agree = || {
        let stats = pool.stats();
        let free: u64 = stats.nodes.iter().map(|node| node.frames_free).sum();
        free == stats.frames_free
    };
    // The page provider may be at work.
    let agree_soon = (0..1000).any(|_| {
        let found = agree();
        if !found {
            thread::sleep(Duration::from_millis(10));
        }
        found
    });
    assert!(agree_soon, "{:?}", pool.stats());
}

/// Threads on all cores make, change and read pages, more than frames if pages can go.
fn stress<T: Translation>(nodes: Nodes) {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 1000;
    // Frames are cut by nodes where any page can lie in any frame.
    let is_cut = T::MEMORY == PageMemory::Frames;
    assert_eq!(is_cut, !matches!(T::NAME, "vm" | "vm-huge" | "direct"), "{}", T::NAME);
    let (_dir, pool) = pool_on::<T>(nodes, BUDGET);
    assert_eq!(frames_of(&pool).len(), if is_cut { 2 } else { 0 }, "{}", T::NAME);
    let spaces = [(); THREADS as usize].map(|()| pool.create_space().unwrap());
    let budget = pool.stats().frames;
    let pages = if T::EVICTS { budget / 2 } else { budget / 8 };
    thread::scope(|scope| {
        for (t, space) in (0..THREADS).zip(&spaces) {
            scope.spawn(move || {
                let _ = stay_on(t as usize % 4);
                let pages: Vec<PageNo> = (0..pages).map(|_| create(space)).collect();
                (0..).zip(&pages).for_each(|(i, page)| write(space, *page, i));
                let mut random = t * 2 + 1;
                for _ in 0..ROUNDS {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let i = (random >> 33) % pages.len() as u64;
                    let (number, ..) = read(space, pages[i as usize]);
                    assert_eq!(number % pages.len() as u64, i, "{}", T::NAME);
                    write(space, pages[i as usize], number + pages.len() as u64);
                }
            });
        }
    });
    let stats = pool.stats();
    assert_eq!(stats.evictions > 0, T::EVICTS, "{}", T::NAME);
    assert_eq!(stats.frames_taken_near > 0 && stats.frames_taken_far > 0, is_cut, "{}", T::NAME);
    if is_cut {
        check_free_frames(&pool);
    }
    pool.flush().unwrap();
}

macro_rules! stressed {
    ($nodes:expr; $($translation:ident as $test:ident,)*) => {$(
        #[test]
        fn $test() {
            if let Some(nodes) = $nodes {
                if_built!($translation, stress::<crate::$translation>(nodes));
            }
        }
    )*};
}

mod made_up_nodes {
    use super::*;

    macro_rules! all {
        (
            evicting { $($(#[$e:meta])* $evicting:ident as $em:ident,)* }
            resident { $($(#[$r:meta])* $resident:ident as $rm:ident,)* }
            $($rest:tt)*
        ) => {
            stressed! {
                Some(shared());
                $($evicting as $em,)*
                $($resident as $rm,)*
                ArrayPlain as array_plain,
            }
        };
    }
    crate::translations!(all);
}

/// The nodes of the machine on which the tests run, where it has several.
mod real_nodes {
    use super::*;

    /// The nodes with one core of each; nothing where there is one, which is said.
    fn homes() -> Option<Vec<(NodeId, usize)>> {
        let ids: Vec<NodeId> = Nodes::of_machine().ids().collect();
        if ids.len() < 2 {
            println!("left out: this machine has one node, or tells of no more");
            return None;
        }
        let core = |id: &NodeId| {
            let path = format!("/sys/devices/system/node/node{}/cpulist", id.get());
            let list = std::fs::read_to_string(path).unwrap();
            (*id, list.trim().split(['-', ',']).next().unwrap().parse().unwrap())
        };
        Some(ids.iter().map(core).collect())
    }

    /// Runs in a thread that stays on a core.
    fn on_core<R: Send>(core: usize, body: impl FnOnce() -> R + Send) -> R {
        thread::scope(|scope| {
            let stays = || {
                assert!(stay_on(core));
                body()
            };
            scope.spawn(stays).join().unwrap()
        })
    }

    #[test]
    fn pages_lie_on_the_node_of_the_thread_that_loads_them() {
        fn check<T: Translation>(homes: &[(NodeId, usize)]) {
            let (_dir, pool) = pool_on::<T>(Nodes::of_machine(), 16 << 20);
            let space = pool.create_space().unwrap();
            for (node, core) in homes.iter().chain(homes.iter().rev()) {
                let pages: Vec<PageNo> =
                    on_core(*core, || (0..100).map(|_| create(&space)).collect());
                // On any core: looking moves nothing.
                for page in pages {
                    let at = read(&space, page).1;
                    assert_eq!(policy::node_of(at), Some(*node), "{}: {page:?}", T::NAME);
                }
            }
            let stats = pool.stats();
            assert_eq!(stats.nodes.len(), if T::MEMORY.is_in_frames() { homes.len() } else { 0 });
            assert_eq!(stats.frames_taken_far, 0);
        }
        let Some(homes) = homes() else { return };
        check::<Hash>(&homes);
        check::<Swizzle>(&homes);
        if EVERY_TRANSLATION {
            check::<ArraySwizzled>(&homes);
            // The kernel's doing.
            check::<Vm>(&homes);
        }
    }

    /// A page's memory is on the node of its tier, also when it has gone there and come back.
    #[test]
    fn pages_of_tiers_lie_on_their_nodes() {
        fn check<T: Translation>(homes: &[(NodeId, usize)]) {
            let [near, far] = [homes[0].0, homes[1].0];
            let tiers = TierConfig {
                first_node: Some(near.get()),
                slower: vec![Tier::new(4 << 20).on_node(far.get())],
                migration: Some(Migration { read_promotes: 1.0, ..Migration::default() }),
                ..TierConfig::default()
            };
            let (_dir, pool) = pool_in::<T>(4 << 20, tiers);
            let space = pool.create_space().unwrap();
            let frames = &pool.shared().core.frames;
            let pages: Vec<PageNo> = (0..1200).map(|_| create(&space)).collect();
            pages.iter().enumerate().for_each(|(i, page)| write(&space, *page, i as u64));
            let (mut was_in, mut round) = ([0; 2], 0);
            // Where pages have addresses, what is loaded into the second tier goes there a little later.
            let mut elsewhere = 0;
            // An emulated processor takes its time.
            while round < 4 || (pool.stats().tier_promotions < 200 && round < 200) {
                // Some of them are used on and on, others in each round.
                for _ in 0..20 {
                    pages
                        .iter()
                        .skip(round % 4)
                        .step_by(4)
                        .for_each(|page| _ = read(&space, *page));
                }
                for (i, page) in pages.iter().enumerate() {
                    let (number, at, frame) = read(&space, *page);
                    let tier = frames.tiers().unwrap().of(frame).index();
                    let lies_on = policy::node_of(at);
                    // It may have gone to another tier while it was looked for.
                    let stayed = match T::MEMORY.is_in_frames() {
                        true => frames.memory.address(frame) == at,
                        false => read(&space, *page).2 == frame,
                    };
                    if stayed {
                        let is_there = lies_on == Some([near, far][tier]);
                        assert!(is_there || T::MEMORY.has_addresses(), "{}: {lies_on:?}", T::NAME);
                        elsewhere += usize::from(!is_there);
                        was_in[tier] += 1;
                    }
                    assert_eq!(number, i as u64);
                }
                round += 1;
            }
            let stats = pool.stats();
            let looks: usize = was_in.iter().sum();
            assert!(elsewhere * 20 < looks, "{}: {elsewhere} of {looks}", T::NAME);
            assert!(was_in.iter().all(|times| *times > 500), "{}: {was_in:?}", T::NAME);
            assert!(stats.tier_promotions >= 200 && stats.tier_demotions > 200, "{stats:?}");
            assert_eq!(stats.evictions, 0);
        }
        let Some(homes) = homes() else { return };
        check::<Array>(&homes);
        check::<Hash>(&homes);
        check::<Swizzle>(&homes);
        if EVERY_TRANSLATION {
            check::<Predictive>(&homes);
            check::<Simd>(&homes);
            check::<Vm>(&homes);
        }
    }

    #[test]
    fn frames_lie_on_their_nodes_whoever_backs_them() {
        let Some(homes) = homes() else { return };
        let (_dir, pool) = prefaulted_on::<Array>(Nodes::of_machine(), 16 << 20);
        let core = &pool.shared().core;
        let nodes = (homes.iter())
            .zip(core.frames.free.each())
            .flat_map(|((node, _), (frames, _))| frames.map(|frame| (FrameId::new(frame), *node)));
        let mut looked_at = 0;
        for (frame, node) in nodes {
            assert_eq!(policy::node_of(core.frames.memory.address(frame)), Some(node), "{frame:?}");
            looked_at += 1;
        }
        assert_eq!(looked_at, pool.stats().frames);
    }

    /// What is full is no reason to fail.
    #[test]
    fn memory_that_a_node_does_not_have_comes_from_another() {
        let Some(homes) = homes() else { return };
        let meminfo = |node: NodeId| {
            let path = format!("/sys/devices/system/node/node{}/meminfo", node.get());
            let text = std::fs::read_to_string(path).unwrap();
            let (_, free) = text.split_once("MemFree:").unwrap();
            free.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
        };
        let (small, _) = *homes.iter().min_by_key(|(node, _)| meminfo(*node)).unwrap();
        let free = meminfo(small);
        let all: usize = homes.iter().map(|(node, _)| meminfo(*node)).sum();
        // Only where a guest has so little that it does not matter.
        if free > 256 << 20 || all < free * 2 {
            println!("left out: the smallest node has {free} bytes free, all have {all}");
            return;
        }
        let range = Mapping::new("test", free + (32 << 20), HUGE_PAGE_BYTES).unwrap();
        range.prefer_node(0, range.len(), small).unwrap();
        let pages = (0..range.len()).step_by(kernel_page_bytes());
        let nodes: HashMap<NodeId, usize> = pages.fold(HashMap::new(), |mut nodes, offset| {
            // SAFETY: within the range, which only this test uses.
            let at = unsafe { range.base().add(offset) };
            // SAFETY: as above.
            unsafe { at.write(1) };
            *nodes.entry(policy::node_of(at).unwrap()).or_default() += 1;
            nodes
        });
        assert!(nodes.len() > 1 && nodes[&small] > free / kernel_page_bytes() / 2, "{nodes:?}");
    }

    stressed! {
        homes().map(|_| Nodes::of_machine());
        Array as array,
        Predictive as predictive,
        Swizzle as swizzle,
        Vm as vm,
    }
}
