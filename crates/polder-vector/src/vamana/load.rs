//! Loading many vectors at once, with memory for a part of them.
//!
//! ```text
//! 1  as many vectors are taken as there is memory for: a run. It is brought into an order in which near
//!    ones follow each other (`order.rs`)
//! 2  one edit for each group of a run, in that order: nodes in new pages, next to each other in the file;
//!    entries behind those of the group before. Each is the child of the one before it, and leads to others
//!    of its group
//! 3  when all are placed, all are linked by parts (`relink.rs`)
//! ```
//!
//! (The order of work of DiskANN's merged index is another one, since its parts are files of their own:
//! there all links are known before a node is written.)
//!
//! Runs may also be placed one by one, and linked when the caller says so ([`VectorIndex::place_run`]), with
//! each edit within something of the caller's ([`Bulk`]): a store counts itself in as a writer for each, and
//! not for as long as a load takes.
//!
//! [`VectorIndex::place_run`]: crate::VectorIndex::place_run
//!
//! From step 2 on a vector is in the index, and all that holds of an index holds behind each edit: entry
//! and node are made by one (`VAMANA-1`), the tree is a path that grows at its end (`VAMANA-5`), and links
//! lead to entries of the same edit, or to older ones (`VAMANA-6`). So a load may end anywhere, by a crash, an
//! error or because it is stopped, and beside it others may insert, remove, search and load:
//!
//! | | |
//! |---|---|
//! | what is found of a load that was cut off | all that was placed by comparing with all; by a search what lies near to where it begins, and what path and groups lead to from there: much less than in a graph |
//! | how it goes on | another load places the rest, and links all; or [`VamanaIndex::relink_all`] alone does. `VAMANA-8` says that it is needed |
//! | another load goes on behind the last one, or others have removed it, or given it as many children as there can be | the root is the next one's parent if that has room, or its child |
//! | others have filled the page of codes | its free places are looked for in each edit |

use std::sync::OnceLock;

use polder_format::PageNo;
use polder_pool::{PoolError, Restart, Translation, lock};
use polder_structure::levels::root;
use polder_structure::{Edit, edit};

use super::code::Code;
use super::layout::Kind;
use super::meta::{self, Entry};
use super::node::List;
use super::prune::Candidate;
use super::slots::{SlotPage, SlotPageMut};
use super::{Core, VamanaIndex};
use crate::element::VectorBuf;
use crate::error::VectorError;
use crate::index::{Bulk, Change, Loading, made};
use crate::near::order_of;
use crate::node_id::{NodeId, State};
use crate::room::Room;
use crate::share::share;
use crate::vectors::Vector;

/// Pages of nodes of a group at most, and vectors of one with several: each is compared with all others.
const GROUP_PAGES: usize = 8;
const GROUP: usize = 128;
/// Vectors of a run, at least.
const LEAST: usize = 256;

/// A vector that is to be placed.
struct New {
    label: u64,
    vector: Vector,
    /// Its code, and how far it is from the centre.
    coded: OnceLock<(Code, f32)>,
}

/// Where a load goes on.
#[derive(Default)]
struct End {
    /// Entry and node that were placed last.
    last: Option<[NodeId; 2]>,
    /// The page of codes that is being filled.
    codes: Option<PageNo>,
}

/// Vectors that are placed by one edit.
struct Group<'g> {
    new: Vec<&'g New>,
    /// Of each the others of the group to which it leads.
    links: Vec<Vec<NodeId>>,
    is_first: bool,
}

impl<T: Translation> VamanaIndex<T> {
    /// Inserts many vectors, each with a label, by so many threads, with about so many bytes of memory beside
    /// the pool's (but for at least some hundred vectors, and for [`VamanaIndex::relink_all`]). Where not all
    /// of an index is in memory, that takes a small part of the reads and writes of inserting one after the
    /// other, and near vectors come to lie near each other. Whether it came to its end.
    ///
    /// `progress` is told how far it has come, and where vectors lie, and stops it by returning false. It is a
    /// load of many vectors into an index that is empty or small beside them: all vectors of the index are
    /// linked at the end. Before that searches find few of the new ones, and
    /// [`search_exact`](VamanaIndex::search_exact) all that were placed. Others may change the index meanwhile.
    ///
    /// ```
    /// # use polder_format::PageSize;
    /// # use polder_pool::{Array, FileState, Pool};
    /// # use polder_testkit::pools;
    /// # use polder_vector::{
    /// #     ElementKind, KINDS, Metric, Search, VamanaIndex, VamanaOptions, VectorBuf, VectorShape,
    /// # };
    /// # let config = pools::config(4, PageSize::MIN, FileState::NEW);
    /// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &KINDS)?;
    /// # let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    /// let index = VamanaIndex::create(pool.create_space()?, &VamanaOptions::new(shape), &[[0.0_f32; 2]])?;
    /// let vector = |label: u64| VectorBuf::from(&[label as f32, (label * 7 % 100) as f32]);
    /// let vectors = (0..500).map(|label| (label, vector(label)));
    /// assert!(index.bulk_load(vectors, 2, 1 << 20, &mut |_| true)?);
    /// assert_eq!(index.search(&[10.2_f32, 70.1], &Search::new(1, 50))?.found[0].label, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of a vector that is not one of the index: the vectors of its run are not placed then, and those
    /// of runs before it are. Those of loading, making and logging pages. After an error, or if it was
    /// stopped, what was placed is to be linked by another load or [`VamanaIndex::relink_all`].
    pub fn bulk_load<V: Into<VectorBuf>>(
        &self,
        vectors: impl IntoIterator<Item = (u64, V)>,
        threads: usize,
        memory_bytes: usize,
        progress: &mut dyn FnMut(Loading<'_>) -> bool,
    ) -> Result<bool, VectorError> {
        let of_one = size_of::<New>() + self.core.bytes_of_vector() + self.core.layout.code + 64;
        let most = (memory_bytes / of_one).max(LEAST);
        let mut vectors = vectors.into_iter().map(|(label, vector)| (label, vector.into()));
        let change: Change<'_> = &|make| make();
        let mut bulk = Bulk { threads, memory_bytes, change, progress };
        loop {
            let run: Vec<_> = vectors.by_ref().take(most).collect();
            if run.is_empty() {
                return self.relink_in(&mut bulk);
            }
            if !self.place_run(run, &mut bulk)? {
                return Ok(false);
            }
        }
    }

    /// Steps 1 and 2 for the vectors of a run. Whether it came to its end.
    pub(super) fn place_run(
        &self,
        run: Vec<(u64, VectorBuf)>,
        bulk: &mut Bulk<'_>,
    ) -> Result<bool, VectorError> {
        let new = |(label, vector): (u64, VectorBuf)| -> Result<New, VectorError> {
            let vector = self.core.distances.vector(vector.view())?;
            Ok(New { label, vector, coded: OnceLock::new() })
        };
        let run = run.into_iter().map(new).collect::<Result<Vec<_>, _>>()?;
        if run.is_empty() {
            return Ok(true);
        }
        let mut end = End { last: lock(&self.core.last_placed).take(), codes: None };
        let placed = self.place_all(&run, &mut end, bulk);
        *lock(&self.core.last_placed) = end.last;
        self.core.filling.put_back(meta::chain(Kind::Codes), end.codes.map(Room::filled));
        match placed {
            Err(VectorError::Stopped) => Ok(false),
            placed => placed,
        }
    }

    /// The same. Leaves where it has ended.
    fn place_all(
        &self,
        run: &[New],
        end: &mut End,
        bulk: &mut Bulk<'_>,
    ) -> Result<bool, VectorError> {
        let Bulk { threads, change, .. } = *bulk;
        let progress = &mut *bulk.progress;
        // 1
        let go_on = &mut |_| progress(Loading::Placed(&[]));
        let code = |(): &mut (), number: usize| -> Result<(), PoolError> {
            run[number].coded(&self.core);
            Ok(())
        };
        if share(run.len(), threads, || (), code, go_on)?.is_none() {
            return Ok(false);
        }
        let central = (0..run.len()).min_by_key(|number| order_of(run[*number].square(&self.core)));
        let vectors: Vec<&Vector> = run.iter().map(|new| &new.vector).collect();
        let order = self.core.order(&vectors, central.unwrap_or(0), threads, go_on);
        let Some(order) = order else { return Ok(false) };
        // 2
        let codes = made(change, || self.page_to_fill(Kind::Codes))?;
        end.codes = codes.map(Room::page);
        let of_page = self.core.layout.slots(Kind::Nodes);
        let of_group = of_page * (GROUP / of_page).clamp(1, GROUP_PAGES);
        for (number, group) in order.chunks(of_group).enumerate() {
            let new: Vec<&New> = group.iter().map(|number| &run[*number as usize]).collect();
            let links = (0..new.len()).map(|one| self.links_in(&new, one)).collect();
            let group = Group { new, links, is_first: number == 0 };
            let place = || edit(&self.space, |edit| self.place(edit, &group, end));
            let places = made(change, place)?;
            let placed = group.new.iter().zip(&places).map(|(new, [entry, _])| (new.label, *entry));
            let placed: Vec<_> = placed.collect();
            end.last = places.last().copied();
            end.codes = end.last.map(|[entry, _]| entry.page());
            if !progress(Loading::Placed(&placed)) {
                return Ok(false);
            }
        }
        // The last page may have room.
        self.core.filling.put_back(
            meta::chain(Kind::Nodes),
            end.last.map(|[_, node]| Room::filled(node.page())),
        );
        Ok(true)
    }

    /// The others of a group to which one leads, by their numbers there.
    fn links_in(&self, group: &[&New], one: usize) -> Vec<NodeId> {
        let core = &*self.core;
        // The next one is its child.
        let others = (0..group.len()).filter(|other| *other != one && *other != one + 1);
        let mut near: Vec<_> = others
            .map(|other| {
                let by = &group[other].vector;
                let distance = core.distances.between(&group[one].vector, by.run(), || by.scale);
                Candidate { distance, entry: NodeId::of_number(other as u32), by }
            })
            .collect();
        Candidate::nearest_first(&mut near);
        // There is room for two children.
        core.prune(&near, core.layout.links - 2)
    }

    /// Step 2: places a group. Gives entries and nodes.
    fn place(
        &self,
        edit: &mut Edit<'_, '_, T>,
        group: &Group<'_>,
        end: &End,
    ) -> Result<Vec<[NodeId; 2]>, Restart> {
        let layout = &self.core.layout;
        let places = self.new_places(edit, group.new.len(), end.codes)?;
        let ([first, _], square) = (places[0], group.new[0].square(&self.core));
        let old = meta::entry(edit.page(root())?);
        let is_nearer = old.is_none_or(|old| group.is_first && square < old.distance);
        let parent = if is_nearer { None } else { self.parent_of_next(edit, end, old)? };
        if let Some([_, node]) = parent {
            let mut list = self.slot_in(edit, node)?.list(layout);
            list.add_child(first, layout.links);
            SlotPageMut::new(edit.page_mut(node.page())?).set_list(layout, node.slot(), &list);
        } else {
            // VAMANA-7
            if let Some(old) = old {
                let old = self.node_in(edit, old.id)?;
                let page = edit.page_mut(old.page())?;
                SlotPageMut::new(page).set_parent(layout, old.slot(), Some(first));
            }
            let entry = Some(Entry { id: first, distance: square });
            meta::set_entry(&mut edit.page_mut(root())?, entry);
        }
        for (one, new) in group.new.iter().enumerate() {
            let [entry, node] = places[one];
            let links = group.links[one].iter().map(|other| places[other.number()][0]).collect();
            let mut list = List { children: 0, links };
            if let Some([child, _]) = places.get(one + 1) {
                list.add_child(*child, layout.links);
            }
            let mut above = one.checked_sub(1).map(|before| places[before][0]);
            if one == 0 {
                match parent {
                    Some([parent, _]) => above = Some(parent),
                    None => old.iter().for_each(|old| list.add_child(old.id, layout.links)),
                }
            }
            let (code, _) = new.coded(&self.core);
            let mut page = SlotPageMut::new(edit.page_mut(entry.page())?);
            page.insert_entry(layout, entry.slot(), (node, new.label), code);
            let mut page = SlotPageMut::new(edit.page_mut(node.page())?);
            let names = (entry, new.label);
            page.insert_node(layout, node.slot(), names, &new.vector, (above, &list));
        }
        // VAMANA-8
        meta::add_group(&mut edit.page_mut(root())?);
        Ok(places)
    }

    /// Entry and node of the parent of the next one, if there is one that has room.
    fn parent_of_next(
        &self,
        edit: &mut Edit<'_, '_, T>,
        end: &End,
        old: Option<Entry>,
    ) -> Result<Option<[NodeId; 2]>, Restart> {
        let layout = &self.core.layout;
        let root = match old {
            Some(old) => Some([old.id, self.node_in(edit, old.id)?]),
            None => None,
        };
        for [entry, node] in end.last.into_iter().chain(root) {
            let slot = self.slot_in(edit, node)?;
            let is_it = slot.state() == State::Live && slot.partner() == Some(entry);
            if is_it && slot.children(layout) < layout.most_children() {
                return Ok(Some([entry, node]));
            }
        }
        Ok(None)
    }

    /// Places for so many entries and nodes.
    fn new_places(
        &self,
        edit: &mut Edit<'_, '_, T>,
        count: usize,
        codes: Option<PageNo>,
    ) -> Result<Vec<[NodeId; 2]>, Restart> {
        let layout = &self.core.layout;
        let in_page = |page: PageNo, slots: Vec<usize>| {
            slots.into_iter().filter_map(move |slot| NodeId::new(page, 0, slot))
        };
        let mut nodes = Vec::new();
        let slots = layout.slots(Kind::Nodes);
        for page in edit.create_run(Kind::Nodes.of_page(), count.div_ceil(slots))? {
            self.begin_page(edit, Kind::Nodes, page)?;
            nodes.extend(in_page(page, (0..slots).collect()));
        }
        let mut entries = Vec::new();
        if let Some(page) = codes {
            let free = SlotPage::new(edit.page(page)?).free_slots(layout, Kind::Codes);
            entries.extend(in_page(page, free.collect()));
        }
        while entries.len() < count {
            let page = edit.create(Kind::Codes.of_page())?;
            self.begin_page(edit, Kind::Codes, page)?;
            entries.extend(in_page(page, (0..layout.slots(Kind::Codes)).collect()));
        }
        Ok(entries.into_iter().zip(nodes).take(count).map(<[NodeId; 2]>::from).collect())
    }
}

impl New {
    /// The first time, it is coded.
    fn coded(&self, core: &Core) -> &(Code, f32) {
        self.coded.get_or_init(|| {
            let residual = core.coder.residual(&self.vector);
            (core.coder.code(&residual), residual.square)
        })
    }

    /// How far it is from the centre.
    fn square(&self, core: &Core) -> f32 {
        self.coded(core).1
    }
}
