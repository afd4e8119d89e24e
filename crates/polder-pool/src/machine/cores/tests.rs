use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use super::*;
use crate::testing::stay_on;

/// A made-up `/sys/devices/system/cpu` with room for many cores, of which these are online: for each
/// core the lists of its caches of levels 1 to 3.
fn machine(online: &str, cores: &[&[&str]]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("possible"), "0-1023\n").unwrap();
    fs::write(dir.path().join("online"), online).unwrap();
    for (core, caches) in cores.iter().enumerate() {
        for (index, list) in caches.iter().enumerate() {
            let cache = dir.path().join(format!("cpu{core}/cache/index{index}"));
            fs::create_dir_all(&cache).unwrap();
            fs::write(cache.join("level"), format!("{}\n", index + 1)).unwrap();
            fs::write(cache.join("type"), "Unified\n").unwrap();
            fs::write(cache.join("shared_cpu_list"), format!("{list}\n")).unwrap();
        }
    }
    dir
}

/// The same where each core has one cache, with the cores that this says.
fn machine_by(online: &str, cores: usize, sharers: impl Fn(usize) -> String) -> tempfile::TempDir {
    let lists: Vec<String> = (0..cores).map(sharers).collect();
    let caches: Vec<[&str; 1]> = lists.iter().map(|list| [list.as_str()]).collect();
    let caches: Vec<&[&str]> = caches.iter().map(|list| list.as_slice()).collect();
    machine(online, &caches)
}

fn by_cache(cpus: &Path) -> Groups {
    Groups::read(cpus, Grouping::ByCache)
}

fn groups_of(groups: &Groups) -> Vec<usize> {
    groups.of_core.iter().map(|group| group.index()).collect()
}

#[test]
fn cores_that_share_their_last_cache_are_a_group() {
    let (even, odd) = (["0", "0,2", "0,2,4"], ["1", "1,3", "1,3"]);
    let dir = machine("0-4\n", &[&even, &odd, &even, &odd, &even]);
    let groups = by_cache(dir.path());
    assert_eq!((groups.count(), groups_of(&groups)), (2, vec![0, 1, 0, 1, 0]));

    // A greater cache for instructions is none; one whose list is empty neither.
    let path = |core: usize| dir.path().join(format!("cpu{core}/cache/index3"));
    for (core, kind, list) in [(0, "Instruction", "0"), (2, "Unified", ""), (4, "Data", "4")] {
        fs::create_dir_all(path(core)).unwrap();
        fs::write(path(core).join("level"), "4").unwrap();
        fs::write(path(core).join("type"), kind).unwrap();
        fs::write(path(core).join("shared_cpu_list"), list).unwrap();
    }
    assert_eq!(groups_of(&by_cache(dir.path())), [0, 1, 0, 1, 2]);
}

#[test]
fn where_caches_are_unknown_neighbours_are_a_group() {
    let dir = machine("0-8", &[]);
    assert_eq!(groups_of(&by_cache(dir.path())), [0, 0, 0, 0, 1, 1, 1, 1, 2]);
    // Cores 1 and 2 are off.
    let dir = machine("0-1,3\n", &[&["0"], &[], &[], &["3"]]);
    assert_eq!(groups_of(&by_cache(dir.path())), [0, 0, 0, 1]);
    let nothing = by_cache(&dir.path().join("nowhere"));
    assert!(nothing.count() >= 1 && nothing.of_core.len() >= nothing.count());
    for garbage in ["", "x", "4-", "99999"] {
        let dir = machine(garbage, &[]);
        assert!(by_cache(dir.path()).count() >= 1, "{garbage:?}");
    }
}

/// Caches of eight cores, on machines of 8 to 512.
#[test]
fn groups_of_made_up_machines() {
    for cores in [8, 16, 64, 65, 100, 128, 256, 512] {
        let cache = |core: usize| core / 8;
        let sharers =
            |core| format!("{}-{}", cache(core) * 8, (cache(core) * 8 + 7).min(cores - 1));
        let dir = machine_by(&format!("0-{}\n", cores - 1), cores, sharers);
        assert_eq!(by_cache(dir.path()).count(), cores.div_ceil(8), "{cores} cores");
        for most in [1, 3, 4, 8, 512] {
            let groups = groups_of(&Groups::read(dir.path(), Grouping::AtMost(most)));
            assert_eq!(groups.len(), cores);
            let parts: Vec<_> = (0..cores)
                .collect::<Vec<_>>()
                .chunk_by(|a, b| groups[*a] == groups[*b])
                .map(<[_]>::len)
                .collect();
            let expected: Vec<_> = (0..cores)
                .collect::<Vec<_>>()
                .chunks(8)
                .flat_map(|cache| cache.chunks(most).map(<[_]>::len))
                .collect();
            assert_eq!(parts, expected, "{cores} cores, at most {most} in a group");
            assert_eq!(
                groups.iter().max().unwrap() + 1,
                parts.len(),
                "each has a number of its own"
            );
        }
    }
}

#[test]
fn cores_that_are_off_have_no_group_of_their_own() {
    // Each second one of 256.
    let list: Vec<_> = (0..256).step_by(2).map(|core| core.to_string()).collect();
    let dir = machine_by(&list.join(","), 256, |core| {
        if core < 128 { "0-127" } else { "128-255" }.into()
    });
    assert_eq!(by_cache(dir.path()).count(), 2);
    let each = Groups::read(dir.path(), Grouping::AtMost(1));
    assert_eq!(each.count(), 128);
    assert!((0..254).all(|core| each.of(core).index() == core / 2), "with the one before it");
    assert_eq!(Groups::read(dir.path(), Grouping::AtMost(4)).count(), 32);
}

#[test]
fn cores_of_one_cache_need_not_be_neighbours() {
    let sharers = |core| format!("{0},{1}", core % 4, core % 4 + 4);
    let dir = machine_by("0-7", 8, sharers);
    assert_eq!(groups_of(&by_cache(dir.path())), [0, 1, 2, 3, 0, 1, 2, 3]);
    let groups = groups_of(&Groups::read(dir.path(), Grouping::AtMost(2)));
    assert_eq!(groups, [0, 1, 2, 3, 0, 1, 2, 3]);
    let groups = groups_of(&Groups::read(dir.path(), Grouping::AtMost(1)));
    assert_eq!(groups, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn too_many_groups_are_merged_with_their_neighbours() {
    let groups = Groups::new((0..1000).collect());
    assert_eq!(groups.count(), MAX_GROUPS);
    assert!(groups.of_core.is_sorted());
    let used: BTreeSet<usize> = groups_of(&groups).into_iter().collect();
    assert_eq!(used, (0..MAX_GROUPS).collect());
    assert_eq!(groups_of(&Groups::new(vec![])), [0]);
}

#[test]
fn any_number_of_a_core_has_a_group() {
    let groups = Groups::new(vec![0, 0, 1, 1, 2, 2]);
    for core in (0..100).chain([usize::MAX]) {
        assert!(groups.all().any(|group| group == groups.of(core)));
    }
    assert_eq!(groups.all().count(), groups.count());
    assert!((0..6).all(|core| groups.of(core).index() == core / 2));
    let machine = Groups::of_machine(Grouping::ByCache);
    assert!(machine.all().any(|group| group == machine.here()));
}

#[test]
fn a_thread_knows_the_core_that_it_stays_on() {
    let current = CurrentCore::find();
    let mut visited = 0;
    let by_core = Groups::of_machine(Grouping::AtMost(1));
    let mut groups = BTreeSet::new();
    for core in online(Path::new(CPUS)).into_iter().take(16) {
        let here = move || {
            let stays = stay_on(core);
            stays.then(|| (current.by_rseq(), by_call(), current.get()))
        };
        if let Some((by_rseq, by_call, get)) = thread::spawn(here).join().unwrap() {
            visited += 1;
            assert!(by_rseq.is_none_or(|found| found == core), "{by_rseq:?} on core {core}");
            assert_eq!((by_call, get), (core, core));
            assert!(groups.insert(by_core.of(core)) || by_core.count() == MAX_GROUPS);
        }
    }
    assert_ne!(visited, 0);
}

#[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn glibc() -> (u32, u32) {
    // SAFETY: a constant text that ends with a zero.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    let mut numbers = version.to_str().unwrap().split('.').map(|n| n.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// While threads move about, both ways agree whenever the first did not change in between.
#[test]
fn rseq_and_the_system_call_agree() {
    let current = CurrentCore::find();
    #[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if glibc() >= (2, 35) && std::env::var_os("GLIBC_TUNABLES").is_none() {
        assert!(current.by_rseq().is_some(), "glibc registers an rseq area since 2.35");
    }
    let compare = move || {
        let mut compared = 0;
        for i in 0..20_000 {
            let (before, call, after) = (current.get(), by_call(), current.get());
            if before == after {
                assert_eq!(before, call);
                compared += 1;
            }
            if i % 100 == 0 {
                thread::yield_now();
            }
        }
        compared
    };
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(compare)).collect();
    for thread in threads {
        assert!(thread.join().unwrap() > 10_000);
    }
}

#[test]
fn without_a_core_threads_differ() {
    let all_live = Barrier::new(16);
    let number = || {
        let first = by_thread();
        all_live.wait();
        assert_eq!(by_thread(), first);
        first
    };
    let numbers: BTreeSet<usize> = thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(number)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(numbers.len() > 12, "{numbers:?}");
}
