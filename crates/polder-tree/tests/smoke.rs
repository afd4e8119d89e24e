#![allow(clippy::unwrap_used, missing_docs)]
use polder_format::*;
use polder_pool::*;
use polder_testkit::SimDisk;
use polder_tree::*;
use std::collections::BTreeMap;

fn pool<T: Translation>(disk: &SimDisk, frames_factor: u64) -> Pool<T> {
    let size = PageSize::MIN;
    let config = PoolConfig {
        memory_budget: PoolConfig::least_budget(size) * frames_factor,
        page_size: size,
        prefault: false,
        seed: ChecksumSeed::new(StoreId([1; 16])),
        file: FileState {
            space_directory: Place::NONE,
            next_space: SpaceId::CATALOGUE,
            file_pages: 0,
        },
    };
    Pool::open(Box::new(disk.clone()), &config, &KINDS).unwrap()
}

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

#[test]
fn random_load_small_pool() {
    let disk = SimDisk::new(polder_testkit::FaultPlan::new(1));
    let pool: Pool<Array> = pool(&disk, 1);
    let tree = Tree::create(pool.create_space().unwrap()).unwrap();
    let n = 60_000u64;
    for i in 0..n {
        assert_eq!(tree.insert(&key(i), &[i as u8; 120], i).unwrap(), Effect::Added);
    }
    eprintln!("{:?}", pool.stats());
    for i in 0..n {
        assert_eq!(tree.get_with(&key(i), |v| v.to_vec()).unwrap().unwrap(), [i as u8; 120]);
    }
    let report = tree.check(&mut |_| true).unwrap();
    assert!(report.faults.is_empty(), "{:?}", &report.faults[..5.min(report.faults.len())]);
    assert_eq!(report.entries, n);
    for i in 0..n {
        assert_eq!(tree.remove(&key(i)).unwrap(), Effect::Removed);
    }
    let report = tree.check(&mut |_| true).unwrap();
    assert!(report.faults.is_empty(), "{:?}", &report.faults);
    assert_eq!(report.entries, 0);
    eprintln!("{:?} in use {}", report, tree.space().pages_in_use().unwrap());
    pool.flush().unwrap();
    let shrunk = pool.shrink().unwrap();
    eprintln!("shrunk {shrunk} {:?}", pool.stats());
    assert!(pool.check_maps().unwrap().is_empty());
}

#[test]
fn threads_small_pool() {
    let disk = SimDisk::new(polder_testkit::FaultPlan::new(1));
    let pool: Pool<Array> = pool(&disk, 1);
    let tree = Tree::create(pool.create_space().unwrap()).unwrap();
    std::thread::scope(|s| {
        for t in 0..8u64 {
            let tree = tree.clone();
            s.spawn(move || {
                let mut model = BTreeMap::new();
                for i in 0..6000u64 {
                    let k = key((i % 2500) * 8 + t);
                    if i % 7 == 3 {
                        tree.remove(&k).unwrap();
                        model.remove(&k);
                    } else {
                        let v = vec![i as u8; (i % 300) as usize];
                        tree.insert(&k, &v, i * 8 + t).unwrap();
                        model.insert(k, v);
                    }
                }
                for (k, v) in &model {
                    assert_eq!(tree.get(k).unwrap().as_ref(), Some(v));
                }
            });
        }
    });
    let report = tree.check(&mut |_| true).unwrap();
    assert!(report.faults.is_empty(), "{:?}", &report.faults);
    eprintln!("{:?}", pool.stats());
}

#[test]
fn bulk_and_scan() {
    let disk = SimDisk::new(polder_testkit::FaultPlan::new(1));
    let pool: Pool<Array> = pool(&disk, 1);
    let tree = Tree::create(pool.create_space().unwrap()).unwrap();
    let n = 50_000u64;
    tree.bulk_load(
        (0..n).map(|i| (i.to_be_bytes(), vec![i as u8; if i % 5000 == 0 { 9000 } else { 100 }])),
        || 1,
    )
    .unwrap();
    let report = tree.check(&mut |_| true).unwrap();
    assert!(report.faults.is_empty(), "{:?}", &report.faults);
    assert_eq!(report.entries, n);
    let mut c = tree.cursor_first().unwrap();
    let mut i = 0u64;
    while let Some((k, _)) = c.next().unwrap() {
        assert_eq!(k, i.to_be_bytes());
        i += 1;
    }
    assert_eq!(i, n);
    let mut c = tree.cursor_last().unwrap();
    while let Some((k, _)) = c.previous().unwrap() {
        i -= 1;
        assert_eq!(k, i.to_be_bytes());
    }
    assert_eq!(i, 0);
}
