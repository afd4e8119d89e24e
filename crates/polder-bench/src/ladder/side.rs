//! What is compared: a translation, how readers hold pages on it, which pages go when room is
//! needed, and whether the kernel may back memory by huge pages.

use polder_pool::replacement::ReplacementKind;
use polder_pool::{GroupSize, Hold};

/// A translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TranslationName {
    Array,
    ArrayPlain,
    ArraySwizzled,
    Direct,
    Hash,
    HashOptimistic,
    HashInlined,
    HashPreferred,
    HashOptimisticInlined,
    PredictiveHashed,
    Open,
    Predictive,
    Simd,
    SimdPlain,
    Swizzle,
    Vm,
    VmHuge,
}

/// `$module::$run` for each translation that a list of sides has, and for no other: each takes its
/// time to compile.
macro_rules! instances {
    (PEERS, $($run:tt)*) => {
        instances!([Array ArraySwizzled Direct Hash Open Predictive Simd Swizzle Vm VmHuge] $($run)*)
    };
    (ENGINES, $($run:tt)*) => {
        instances!([
            Array ArrayPlain ArraySwizzled Direct Hash Open Predictive PredictiveHashed Simd SimdPlain
            Swizzle Vm VmHuge
        ] $($run)*)
    };
    (STEPS, $($run:tt)*) => {
        instances!([
            Array ArrayPlain ArraySwizzled Direct Hash HashOptimistic HashInlined HashPreferred
            HashOptimisticInlined PredictiveHashed Open Predictive Simd SimdPlain Swizzle Vm VmHuge
        ] $($run)*)
    };
    (EVICTING, $($run:tt)*) => {
        instances!([Array ArraySwizzled Hash Open Predictive Simd Swizzle Vm] $($run)*)
    };
    (PROMOTING, $($run:tt)*) => {
        instances!([Array PredictiveHashed Predictive Simd] $($run)*)
    };
    (HOLDS, $($run:tt)*) => { instances!([Array Hash Simd SimdPlain] $($run)*) };
    (HOLDS_LARGER, $($run:tt)*) => { instances!([Array Hash SimdPlain] $($run)*) };
    (COPYING, $($run:tt)*) => { instances!([Array Hash Simd] $($run)*) };
    (COOLED, $($run:tt)*) => { instances!([Swizzle] $($run)*) };
    (SCANNED, $($run:tt)*) => { instances!([Array Hash Simd Swizzle Vm] $($run)*) };
    (BROKEN_DOWN, $($run:tt)*) => { instances!([Array Hash Simd] $($run)*) };
    ([$($translation:ident)*] $module:ident :: $run:ident) => {
        &[$((
            $crate::ladder::side::TranslationName::$translation,
            $module::$run::<polder_pool::$translation>,
        )),*]
    };
}
pub(crate) use instances;

/// One side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Side {
    /// What results call it.
    pub(crate) name: &'static str,
    pub(crate) translation: TranslationName,
    pub(crate) hold: Hold,
    pub(crate) replacement: ReplacementKind,
    /// Else the whole process does without: frames, tables and all.
    pub(crate) huge_pages: bool,
    /// The process may have no more memory than the others' budget, and the kernel swaps the rest.
    pub(crate) swapped: bool,
}

const fn plain(name: &'static str, translation: TranslationName) -> Side {
    Side {
        name,
        translation,
        hold: Hold::Optimistic,
        replacement: ReplacementKind::Clock,
        huge_pages: true,
        swapped: false,
    }
}

const fn holding(name: &'static str, translation: TranslationName, hold: Hold) -> Side {
    Side { hold, ..plain(name, translation) }
}

const fn small_pages(name: &'static str, translation: TranslationName) -> Side {
    Side { huge_pages: false, ..plain(name, translation) }
}

const fn featured(
    name: &'static str,
    translation: TranslationName,
    replacement: ReplacementKind,
    hold: Hold,
) -> Side {
    Side { replacement, hold, ..plain(name, translation) }
}

const ARRAY: Side = plain("array", TranslationName::Array);
const ARRAY_PLAIN: Side = plain("array-plain", TranslationName::ArrayPlain);
const DIRECT: Side = plain("direct", TranslationName::Direct);
const HASH: Side = plain("hash", TranslationName::Hash);
const HASH_OPTIMISTIC: Side = plain("hash+optimistic", TranslationName::HashOptimistic);
const HASH_INLINED: Side = plain("hash+inlined", TranslationName::HashInlined);
const HASH_PREFERRED: Side = plain("hash+preferred", TranslationName::HashPreferred);
const HASH_OPTIMISTIC_INLINED: Side =
    plain("hash+optimistic+inlined", TranslationName::HashOptimisticInlined);
const PREDICTIVE_HASHED: Side = plain("predictive-hashed", TranslationName::PredictiveHashed);
const OPEN: Side = plain("open", TranslationName::Open);
const PREDICTIVE: Side = plain("predictive", TranslationName::Predictive);
const SIMD: Side = plain("simd", TranslationName::Simd);
const SIMD_PLAIN: Side = plain("simd-plain", TranslationName::SimdPlain);
const SWIZZLE: Side = plain("swizzle", TranslationName::Swizzle);
const ARRAY_SWIZZLED: Side = plain("array-swizzled", TranslationName::ArraySwizzled);
const VM: Side = plain("vm", TranslationName::Vm);
const VM_HUGE: Side = plain("vm-huge", TranslationName::VmHuge);
const ARRAY_SMALL_PAGES: Side = small_pages("array, small pages", TranslationName::Array);
const HASH_SMALL_PAGES: Side = small_pages("hash, small pages", TranslationName::Hash);
const PREDICTIVE_SMALL_PAGES: Side =
    small_pages("predictive, small pages", TranslationName::Predictive);

/// Each translation once.
pub(crate) const PEERS: &[Side] =
    &[ARRAY, ARRAY_SWIZZLED, DIRECT, HASH, OPEN, PREDICTIVE, SIMD, SWIZZLE, VM, VM_HUGE];

/// The same, and the papers' own engines where a peer has taken in what another paper found: the array of
/// calico.txt and the table of scalecache.txt without preferred frames, and predictive translation by
/// hash.
pub(crate) const ENGINES: &[Side] = &[
    ARRAY,
    ARRAY_PLAIN,
    ARRAY_SWIZZLED,
    DIRECT,
    HASH,
    OPEN,
    PREDICTIVE,
    PREDICTIVE_HASHED,
    SIMD,
    SIMD_PLAIN,
    SWIZZLE,
    VM,
    VM_HUGE,
];

/// All of point lookups: the peers, `array` and `simd` without preferred frames, the steps from `hash` to
/// `predictive`, and some without huge pages.
pub(crate) const STEPS: &[Side] = &[
    ARRAY,
    ARRAY_PLAIN,
    DIRECT,
    HASH,
    HASH_OPTIMISTIC,
    HASH_INLINED,
    HASH_PREFERRED,
    HASH_OPTIMISTIC_INLINED,
    OPEN,
    PREDICTIVE_HASHED,
    PREDICTIVE,
    SIMD,
    SIMD_PLAIN,
    SWIZZLE,
    ARRAY_SWIZZLED,
    VM,
    VM_HUGE,
    ARRAY_SMALL_PAGES,
    HASH_SMALL_PAGES,
    PREDICTIVE_SMALL_PAGES,
];

/// The steps from `hash` to `predictive` alone.
pub(crate) const TO_PREDICTIVE: &[Side] = &[
    HASH,
    HASH_OPTIMISTIC,
    HASH_INLINED,
    HASH_PREFERRED,
    HASH_OPTIMISTIC_INLINED,
    PREDICTIVE_HASHED,
    PREDICTIVE,
];

/// With preferred frames and without, in turn.
pub(crate) const PREFERRING: &[Side] = &[ARRAY, ARRAY_PLAIN, SIMD, SIMD_PLAIN];

/// With huge pages and without, in turn.
pub(crate) const PAGE_SIZES: &[Side] = &[
    ARRAY,
    ARRAY_SMALL_PAGES,
    PREDICTIVE,
    PREDICTIVE_SMALL_PAGES,
    HASH,
    HASH_SMALL_PAGES,
    VM_HUGE,
    VM,
];

/// A chained table as it was, and as it became.
pub(crate) const CHAINED: &[Side] = &[HASH, PREDICTIVE];

/// LeanStore's own way to choose pages, beside the clock that the others have.
const SWIZZLE_COOLING: Side =
    featured("swizzle, cooling", TranslationName::Swizzle, COOLING, Hold::Optimistic);

/// Those that evict.
pub(crate) const EVICTING: &[Side] =
    &[ARRAY, ARRAY_SWIZZLED, HASH, OPEN, PREDICTIVE, SIMD, SWIZZLE, SWIZZLE_COOLING, VM];

/// Those that move pages to the frames that they prefer, of which places are looked at.
pub(crate) const PROMOTING: &[Side] = &[ARRAY, PREDICTIVE_HASHED, PREDICTIVE, SIMD];

/// Groups of one core: several on a machine with one cache, where all cores are one group else.
const GROUPS_OF_ONE: Hold = Hold::GroupOf(GroupSize::ONE);
const COPIES_BY_ONE: Hold = Hold::CopyOf(GroupSize::ONE);
/// Groups of the size that scalecache.txt 4.6 compares with single cores.
const GROUPS_OF_FOUR: Hold = match GroupSize::new(4) {
    Some(size) => Hold::GroupOf(size),
    None => panic!("four cores are a group"),
};

const HASH_SHARED: Side = holding("hash, shared", TranslationName::Hash, Hold::Shared);
const HASH_GROUP: Side = holding("hash, group", TranslationName::Hash, Hold::Group);
const HASH_COPY: Side = holding("hash, copy", TranslationName::Hash, Hold::Copy);
const SIMD_PLAIN_SHARED: Side =
    holding("simd-plain, shared", TranslationName::SimdPlain, Hold::Shared);
const SIMD_PLAIN_GROUP: Side =
    holding("simd-plain, group", TranslationName::SimdPlain, Hold::Group);
const SIMD_PLAIN_GROUP_4: Side =
    holding("simd-plain, group:4", TranslationName::SimdPlain, GROUPS_OF_FOUR);
const SIMD_PLAIN_CORE: Side = holding("simd-plain, core", TranslationName::SimdPlain, Hold::Core);
const SIMD_PLAIN_COPY: Side = holding("simd-plain, copy", TranslationName::SimdPlain, Hold::Copy);
const SIMD_PLAIN_OPTIMISTIC: Side =
    holding("simd-plain, optimistic", TranslationName::SimdPlain, Hold::Optimistic);
const SIMD_SHARED: Side = holding("simd, shared", TranslationName::Simd, Hold::Shared);
const SIMD_GROUP: Side = holding("simd, group", TranslationName::Simd, Hold::Group);
const SIMD_GROUP_4: Side = holding("simd, group:4", TranslationName::Simd, GROUPS_OF_FOUR);
const SIMD_CORE: Side = holding("simd, core", TranslationName::Simd, Hold::Core);
const SIMD_COPY: Side = holding("simd, copy", TranslationName::Simd, Hold::Copy);
const SIMD_OPTIMISTIC: Side = holding("simd, optimistic", TranslationName::Simd, Hold::Optimistic);
const ARRAY_COPY: Side = holding("array, copy", TranslationName::Array, Hold::Copy);
const ARRAY_OPTIMISTIC: Side =
    holding("array, optimistic", TranslationName::Array, Hold::Optimistic);

/// The steps of scalecache.txt 4.2, and where no step is left to take.
pub(crate) const HOLDS: &[Side] = &[
    HASH_SHARED,
    HASH_GROUP,
    HASH_COPY,
    SIMD_PLAIN_SHARED,
    SIMD_PLAIN_GROUP,
    SIMD_PLAIN_GROUP_4,
    SIMD_PLAIN_CORE,
    SIMD_PLAIN_COPY,
    SIMD_PLAIN_OPTIMISTIC,
    SIMD_GROUP,
    holding("simd, group:1", TranslationName::Simd, GROUPS_OF_ONE),
    SIMD_OPTIMISTIC,
    holding("array, group", TranslationName::Array, Hold::Group),
    holding("array, group:1", TranslationName::Array, GROUPS_OF_ONE),
    ARRAY_COPY,
    ARRAY_OPTIMISTIC,
];

/// Of these, the steps where data are larger than memory.
pub(crate) const HOLDS_LARGER: &[Side] = &[
    HASH_SHARED,
    HASH_GROUP,
    HASH_COPY,
    SIMD_PLAIN_SHARED,
    SIMD_PLAIN_GROUP,
    SIMD_PLAIN_COPY,
    SIMD_PLAIN_OPTIMISTIC,
    ARRAY_OPTIMISTIC,
];

/// Of these, counts for groups of four cores and for single ones.
pub(crate) const GROUPS_AND_CORES: &[Side] = &[SIMD_PLAIN_GROUP_4, SIMD_PLAIN_CORE];

/// The same steps in stores, which have no `simd` without preferred frames.
pub(crate) const TPCC_HOLDS: &[Side] = &[
    HASH_SHARED,
    HASH_COPY,
    SIMD_SHARED,
    SIMD_GROUP,
    SIMD_GROUP_4,
    SIMD_CORE,
    SIMD_COPY,
    SIMD_OPTIMISTIC,
    ARRAY_OPTIMISTIC,
];

/// Of these, the steps where data are larger than memory.
pub(crate) const TPCC_HOLDS_LARGER: &[Side] =
    &[HASH_SHARED, HASH_COPY, SIMD_SHARED, SIMD_COPY, SIMD_OPTIMISTIC, ARRAY_OPTIMISTIC];

/// Of these, counts for groups of four cores and for single ones.
pub(crate) const TPCC_GROUPS_AND_CORES: &[Side] = &[SIMD_GROUP_4, SIMD_CORE];

/// Nodes that are changed in copies, beside the other ways of holding that the same tables have.
pub(crate) const COPYING: &[Side] = &[
    ARRAY_COPY,
    ARRAY_OPTIMISTIC,
    holding("array, group", TranslationName::Array, Hold::Group),
    holding("array, copy:1", TranslationName::Array, COPIES_BY_ONE),
    holding("array, group:1", TranslationName::Array, GROUPS_OF_ONE),
    HASH_COPY,
    HASH,
    HASH_GROUP,
    SIMD_COPY,
    SIMD_OPTIMISTIC,
    SIMD_GROUP,
    holding("simd, copy:1", TranslationName::Simd, COPIES_BY_ONE),
    holding("simd, group:1", TranslationName::Simd, GROUPS_OF_ONE),
];

/// Those of resident TPC-C: `direct` as the yardstick, `hash` as the traditional pool, and what one
/// would choose from.
pub(crate) const RESIDENT_TPCC: &[Side] =
    &[ARRAY, ARRAY_SWIZZLED, DIRECT, HASH, PREDICTIVE, SIMD, SWIZZLE, VM];

/// A traditional pool becomes LeanStore, a feature at a time (leanstore.txt, figure 7).
pub(crate) const FEATURES: &[Side] = &[
    featured("hash, lru, shared", TranslationName::Hash, ReplacementKind::Lru, Hold::Shared),
    featured("swizzle, lru, shared", TranslationName::Swizzle, ReplacementKind::Lru, Hold::Shared),
    featured("swizzle, cooling, shared", TranslationName::Swizzle, COOLING, Hold::Shared),
    featured("swizzle, cooling, optimistic", TranslationName::Swizzle, COOLING, Hold::Optimistic),
];

/// LeanStore's share of pages that cool.
const COOLING: ReplacementKind = ReplacementKind::Cooling { percent: 10 };

/// A design of each kind.
pub(crate) const DESIGNS: &[Side] = &[ARRAY, PREDICTIVE, SWIZZLE, VM];

/// The same, and a tree without eviction on the kernel's swap.
pub(crate) const DESIGNS_AND_SWAP: &[Side] = &[
    ARRAY,
    PREDICTIVE,
    SWIZZLE,
    SWIZZLE_COOLING,
    VM,
    Side { swapped: true, ..plain("direct, swapped", TranslationName::Direct) },
];
/// The one of which cooling pages are compared: in the paper, too, links hold frames.
pub(crate) const COOLED: &[Side] = &[SWIZZLE];

/// One of each kind that evicts.
pub(crate) const SCANNED: &[Side] = &[ARRAY, HASH, SIMD, SWIZZLE, SWIZZLE_COOLING, VM];

/// Those of which lookups are taken apart: each run holds pages in several ways by itself, so these
/// say the translation alone.
pub(crate) const BROKEN_DOWN: &[Side] = &[HASH, SIMD, ARRAY];
pub(crate) const HASH_ALONE: &[Side] = &[HASH];
pub(crate) const SIMD_ALONE: &[Side] = &[SIMD];
pub(crate) const ARRAY_ALONE: &[Side] = &[ARRAY];
pub(crate) const SWIZZLE_ALONE: &[Side] = &[SWIZZLE];

/// Those that have a word for each page of the data, and give words back.
pub(crate) const MAPPED: &[Side] = &[ARRAY, ARRAY_SWIZZLED];
