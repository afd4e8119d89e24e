//! Pages of vector indexes, some of whose bytes were changed.
#![no_main]

use std::iter;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use polder_format::{ChecksumSeed, PageSize, StoreId, header_at};
use polder_pool::bytes::PageBuf;
use polder_pool::device::{FileDevice, OpenKind};
use polder_pool::{AccessHint, Array, Pool, PoolConfig, Space};
use polder_structure::Structure;
use polder_vector::{
    ElementKind, HnswIndex, HnswOptions, IndexOptions, IvfIndex, IvfOptions, KINDS, Metric,
    VamanaIndex, VamanaOptions, VectorShape, VectorStructure, ivf,
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

fn copy_of(page: &PageBuf) -> PageBuf {
    let mut copy = PageBuf::new(SIZE);
    copy.copy_from(page.page());
    copy
}

fn is_of_lists(page: &PageBuf) -> bool {
    ivf::KINDS.iter().any(|kind| kind.kind.0 == page.page().u8(header_at::KIND))
}

fuzz_target!(|input: Input| {
    let whole = &PAGES[usize::from(input.page) % PAGES.len()];
    let mut page = PageBuf::new(SIZE);
    page.copy_from(whole.page());
    for (at, change) in input.changes {
        page.bytes_mut()[usize::from(at) % SIZE.bytes()] ^= change;
    }
    let kind = KINDS.iter().find(|kind| kind.kind.0 == page.page().u8(header_at::KIND));
    let is_sound = kind.is_some_and(|kind| (kind.check)(page.page()).is_ok());
    // Also of a page that is refused, as a salvage may meet it.
    let told = |pages: &mut dyn Iterator<Item = PageBuf>| {
        let new = <VectorStructure as Structure>::options(pages)?;
        Some(new.options())
    };
    let options = told(&mut iter::once(copy_of(&page)));
    // In front of all others, and behind them.
    let all = || PAGES.iter().map(copy_of);
    for pages in [
        &mut iter::once(copy_of(&page)).chain(all()) as &mut dyn Iterator<Item = PageBuf>,
        &mut all().filter(is_of_lists).chain(iter::once(copy_of(&page))),
    ] {
        if let Some(IndexOptions::Ivf(options)) = told(pages) {
            assert!((1..=1 << 16).contains(&options.lists));
        }
    }
    let page = page.page();
    <VectorStructure as Structure>::entries(page, &mut |key, value| {
        assert!(key.len() == 8 && value.len() <= SIZE.bytes());
        if let Some(options) = options.as_ref().filter(|_| is_sound) {
            let shape = options.shape();
            assert_eq!(value.len(), shape.element.bytes(shape.dimensions));
        }
    });
});
