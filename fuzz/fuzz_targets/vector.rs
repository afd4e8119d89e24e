//! Pages of vector indexes, some of whose bytes were changed.
#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use polder_format::{ChecksumSeed, PageSize, StoreId, header_at};
use polder_pool::bytes::PageBuf;
use polder_pool::device::{FileDevice, OpenKind};
use polder_pool::{AccessHint, Array, Pool, PoolConfig, Space};
use polder_structure::Structure;
use polder_vector::{
    ElementKind, HnswIndex, HnswOptions, IvfIndex, IvfOptions, KINDS, Metric, VamanaIndex,
    VamanaOptions, VectorShape, VectorStructure,
};

#[derive(Debug, Arbitrary)]
struct Input {
    page: u8,
    changes: Vec<(u16, u8)>,
}

const SIZE: PageSize = PageSize::MIN;
const SHAPE: VectorShape =
    VectorShape { element: ElementKind::F32, dimensions: 8, metric: Metric::Cosine };

/// All pages of a graph, of lists, and of a graph with codes.
static PAGES: LazyLock<Vec<PageBuf>> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("polder-fuzz-vector-{}", std::process::id()));
    let device = FileDevice::open(&folder, OpenKind::Create).unwrap();
    let config = PoolConfig::new(16 << 20, SIZE, ChecksumSeed::new(StoreId([1; 16])));
    let pool: Pool<Array> = Pool::open(Box::new(device), &config, &KINDS).unwrap();
    let vectors: Vec<[f32; 8]> = (0..400)
        .map(|i| std::array::from_fn(|at| ((i * 31 + at * 17) % 97) as f32 - 40.0))
        .collect();
    let options = HnswOptions { links: 4, ..HnswOptions::new(SHAPE) };
    let graph = HnswIndex::create(pool.create_space().unwrap(), &options).unwrap();
    let options = IvfOptions { shape: SHAPE, lists: 8 };
    let lists = IvfIndex::create(pool.create_space().unwrap(), &options, &vectors).unwrap();
    let options = VamanaOptions { links: 8, ..VamanaOptions::new(SHAPE) };
    let steered = VamanaIndex::create(pool.create_space().unwrap(), &options, &vectors).unwrap();
    for (label, vector) in vectors.iter().enumerate() {
        let (node, entry, code) = (
            graph.insert(label as u64, vector).unwrap(),
            lists.insert(label as u64, vector).unwrap(),
            steered.insert(label as u64, vector).unwrap(),
        );
        if label % 5 == 0 {
            graph.remove(label as u64, node).unwrap();
            lists.remove(label as u64, entry).unwrap();
            steered.remove(label as u64, code).unwrap();
        }
    }
    let mut pages = copies(graph.space());
    pages.extend(copies(lists.space()));
    pages.extend(copies(steered.space()));
    let _ = std::fs::remove_file(folder);
    pages
});

fn copies(space: &Space<Array>) -> Vec<PageBuf> {
    let copy = |number| {
        let mut copy = PageBuf::new(SIZE);
        let read = space.run(AccessHint::Normal, |attempt| {
            let page = space.page(attempt, number)?;
            copy.copy_from(page.page());
            page.validate()
        });
        read.map(|()| copy).unwrap()
    };
    space.used_pages().unwrap().into_iter().map(copy).collect()
}

fuzz_target!(|input: Input| {
    let whole = &PAGES[usize::from(input.page) % PAGES.len()];
    let mut page = PageBuf::new(SIZE);
    page.copy_from(whole.page());
    for (at, change) in input.changes {
        page.bytes_mut()[usize::from(at) % SIZE.bytes()] ^= change;
    }
    let page = page.page();
    let kind = KINDS.iter().find(|kind| kind.kind.0 == page.u8(header_at::KIND));
    let is_sound = kind.is_some_and(|kind| (kind.check)(page).is_ok());
    // Also of a page that is refused, as a salvage may meet it.
    let options = <VectorStructure as Structure>::options(page);
    <VectorStructure as Structure>::entries(page, &mut |key, value| {
        assert!(key.len() == 8 && value.len() <= SIZE.bytes());
        if let Some(options) = options.as_ref().filter(|_| is_sound) {
            let shape = options.options().shape();
            assert_eq!(value.len(), shape.element.bytes(shape.dimensions));
        }
    });
});
