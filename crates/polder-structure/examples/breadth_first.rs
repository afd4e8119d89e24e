//! A graph in the pages of a file, as an adjacency list for each node, and a walk through it breadth first: with
//! all neighbours of a node asked for together, and one after the other.
//!
//!     cargo run --release -p polder-structure --example breadth_first [nodes [neighbours [share]]]
//!
//! There is memory for all of it, or for one part in `share`.
//!
//! A walk through a graph has nothing to do but to wait for memory: each neighbour is somewhere else. Where
//! a page lies follows from its number alone in some designs (an array, the page table), so that the lines
//! of many of them can be on their way at once ("group prefetch"; Calico, section 3.3, does so on five
//! million nodes with 44 neighbours each). What is not in memory is read by requests that are under way
//! together. A graph that fits the processor's cache gains nothing by it: give more nodes than the default.

use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

use polder_format::{ChecksumSeed, PAGE_HEADER_BYTES, PageId, PageKind, PageNo, PageSize, StoreId};
use polder_pool::bytes::{PageMut, PageRef};
use polder_pool::device::{FileDevice, OpenKind};
use polder_pool::{
    AccessHint, Array, KindOps, LinkRef, Pool, PoolConfig, PoolError, Space, Translation,
};
use polder_structure::edit;
use polder_testkit::Random;

/// A page of a node: its number 8 | count 8 | the page in which its neighbours go on, or 0 8 | pages of
/// neighbours 8 each.
const NODE: KindOps = KindOps::plain(PageKind(200), "node of a graph", check);
const NUMBER: usize = PAGE_HEADER_BYTES;
const COUNT: usize = PAGE_HEADER_BYTES + 8;
const MORE: usize = PAGE_HEADER_BYTES + 16;
const NEIGHBOURS: usize = PAGE_HEADER_BYTES + 24;

/// Neighbours that are asked for together, at most.
const TOGETHER: usize = 64;

fn most_neighbours(page: PageRef<'_>) -> usize {
    (page.size() - NEIGHBOURS) / 8
}

fn check(page: PageRef<'_>) -> Result<(), &'static str> {
    match page.u64(COUNT) as usize <= most_neighbours(page) {
        true => Ok(()),
        false => Err("a node has more neighbours than fit its page"),
    }
}

/// A graph in a space of a pool.
struct Graph<T: Translation>(Space<T>);

impl<T: Translation> Graph<T> {
    /// Adds a node without neighbours.
    fn add(&self, number: u64) -> Result<PageNo, PoolError> {
        edit(&self.0, |edit| {
            let page = edit.create(NODE.kind)?;
            edit.page_mut(page)?.set_u64(NUMBER, number);
            Ok(page)
        })
    }

    /// Gives a node without neighbours these. All that do not fit its page lie in pages behind it.
    fn link(&self, node: PageNo, neighbours: &[PageNo]) -> Result<(), PoolError> {
        let (mut page, mut left) = (node, neighbours);
        while !left.is_empty() {
            let next = edit(&self.0, |edit| {
                let most = most_neighbours(edit.page_mut(page)?.as_ref());
                let (here, behind) = left.split_at(left.len().min(most));
                let more = if behind.is_empty() { None } else { Some(edit.create(NODE.kind)?) };
                let mut page: PageMut<'_> = edit.page_mut(page)?;
                page.set_u64(COUNT, here.len() as u64);
                page.set_u64(MORE, more.map_or(0, PageNo::get));
                for (i, neighbour) in here.iter().enumerate() {
                    page.set_u64(NEIGHBOURS + 8 * i, neighbour.get());
                }
                Ok(more.map(|more| (more, behind)))
            })?;
            (page, left) = next.unwrap_or((page, &[]));
        }
        Ok(())
    }

    /// The numbers of all nodes that are reached from one, in the order in which they are: nearest first.
    fn breadth_first(
        &self,
        start: PageNo,
        nodes: usize,
        asks: bool,
    ) -> Result<Vec<u64>, PoolError> {
        let (mut seen, mut order) = (vec![false; nodes], Vec::with_capacity(nodes));
        let mut queue = VecDeque::from([start]);
        let mut new = |number: u64| {
            let is_new =
                seen.get_mut(number as usize).is_some_and(|seen| !std::mem::replace(seen, true));
            order.extend(is_new.then_some(number));
            is_new
        };
        new(self.number(start)?);
        let (mut neighbours, mut wanted) = (Vec::new(), Vec::new());
        while let Some(node) = queue.pop_front() {
            self.read_neighbours(node, &mut neighbours)?;
            if asks {
                let link = |page: &PageNo| LinkRef::Id(PageId::new(self.0.id(), *page));
                wanted.clear();
                wanted.extend(neighbours.iter().map(|page| (link(page), NUMBER)));
                // A group takes a part of the memory.
                for some in wanted.chunks(TOGETHER) {
                    self.0.prefetch_group(some);
                }
            }
            for neighbour in &neighbours {
                if new(self.number(*neighbour)?) {
                    queue.push_back(*neighbour);
                }
            }
        }
        Ok(order)
    }

    fn number(&self, node: PageNo) -> Result<u64, PoolError> {
        self.0.run(AccessHint::Normal, |attempt| {
            let page = self.0.page(attempt, node)?;
            let number = page.page().u64(NUMBER);
            page.validate()?;
            Ok(number)
        })
    }

    fn read_neighbours(&self, node: PageNo, neighbours: &mut Vec<PageNo>) -> Result<(), PoolError> {
        neighbours.clear();
        let mut next = Some(node);
        while let Some(node) = next {
            let before = neighbours.len();
            next = self.0.run(AccessHint::Normal, |attempt| {
                neighbours.truncate(before);
                let page = self.0.page(attempt, node)?;
                let bytes = page.page();
                let count = (bytes.u64(COUNT) as usize).min(most_neighbours(bytes));
                let number = |i| PageNo::new(bytes.u64(NEIGHBOURS + 8 * i));
                neighbours.extend((0..count).filter_map(number));
                let more = PageNo::new(bytes.u64(MORE)).filter(|more| more.get() > 0);
                // What was read counts now, or is read again.
                page.validate()?;
                Ok(more)
            })?;
        }
        Ok(())
    }
}

/// The same walk through the same graph in private memory.
fn breadth_first(links: &[Vec<usize>]) -> Vec<u64> {
    let (mut seen, mut order) = (vec![false; links.len()], vec![0]);
    seen[0] = true;
    let mut next = 0;
    while let Some(node) = order.get(next).copied() {
        next += 1;
        for neighbour in &links[node] {
            if !std::mem::replace(&mut seen[*neighbour], true) {
                order.push(*neighbour);
            }
        }
    }
    order.into_iter().map(|node| node as u64).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse());
    let (nodes, neighbours, share): (usize, usize, usize) =
        (number(2000)?, number(44)?, number(1)?);
    let size = PageSize::MIN;
    let pages = nodes * neighbours.div_ceil((size.bytes() - NEIGHBOURS) / 8).max(1);
    let budget = (pages * size.bytes() * 11 / 10 / share.max(1)).max(16 << 20) as u64;
    let config = PoolConfig::new(budget, size, ChecksumSeed::new(StoreId([1; 16])));
    let folder = tempfile::tempdir()?;
    let device = Box::new(FileDevice::open(folder.path().join("graph"), OpenKind::Create)?);
    let pool: Pool<Array> = Pool::open(device, &config, &[NODE])?;
    let graph = Graph(pool.create_space()?);

    let mut random = Random::new(1);
    let links: Vec<Vec<usize>> =
        (0..nodes).map(|_| (0..neighbours).map(|_| random.index(nodes)).collect()).collect();
    let of_nodes = (0..nodes as u64).map(|node| graph.add(node));
    let of_nodes = of_nodes.collect::<Result<Vec<_>, _>>()?;
    for (page, links) in of_nodes.iter().zip(&links) {
        let links: Vec<PageNo> = links.iter().map(|link| of_nodes[*link]).collect();
        graph.link(*page, &links)?;
    }

    let expected = breadth_first(&links);
    let (mut times, rounds) = ([Duration::MAX; 2], if share == 1 { 3 } else { 1 });
    for _ in 0..rounds {
        for (asks, best) in [false, true].into_iter().zip(&mut times) {
            let begun = Instant::now();
            let order = graph.breadth_first(of_nodes[0], nodes, asks)?;
            *best = begun.elapsed().min(*best);
            assert_eq!(order, expected, "every node once, nearest first");
        }
    }
    let [one_by_one, together] = times.map(|time| time.as_secs_f64());
    let (bytes, mib) = (pages * size.bytes(), 1 << 20);
    println!("{} nodes with {neighbours} neighbours each are reached", expected.len());
    println!("{} MiB of pages, memory for {} MiB", bytes / mib, budget as usize / mib);
    println!("{:.2} times as fast when they are asked for together", one_by_one / together);
    Ok(())
}
