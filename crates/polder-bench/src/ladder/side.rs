//! What is compared: a translation, how readers hold pages on it, and whether the kernel may back
//! memory by huge pages.

use polder_pool::Hold;

/// A translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Array,
    ArrayPlain,
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
    Vm,
    VmHuge,
}

/// Runs `body` with `$t` as the type of the translation.
macro_rules! dispatch {
    ($way:expr, $t:ident => $body:expr) => {{
        use $crate::ladder::side::Way;
        macro_rules! with {
            ($which:ident) => {{
                type $t = polder_pool::$which;
                $body
            }};
        }
        match $way {
            Way::Array => with!(Array),
            Way::ArrayPlain => with!(ArrayPlain),
            Way::Direct => with!(Direct),
            Way::Hash => with!(Hash),
            Way::HashOptimistic => with!(HashOptimistic),
            Way::HashInlined => with!(HashInlined),
            Way::HashPreferred => with!(HashPreferred),
            Way::HashOptimisticInlined => with!(HashOptimisticInlined),
            Way::PredictiveHashed => with!(PredictiveHashed),
            Way::Open => with!(Open),
            Way::Predictive => with!(Predictive),
            Way::Simd => with!(Simd),
            Way::Vm => with!(Vm),
            Way::VmHuge => with!(VmHuge),
        }
    }};
}
pub(crate) use dispatch;

/// One side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Side {
    /// What results call it.
    pub(crate) name: &'static str,
    pub(crate) way: Way,
    pub(crate) hold: Hold,
    /// Else the whole process does without: frames, tables and all.
    pub(crate) huge_pages: bool,
}

const fn plain(name: &'static str, way: Way) -> Side {
    Side { name, way, hold: Hold::Optimistic, huge_pages: true }
}

const fn holding(name: &'static str, way: Way, hold: Hold) -> Side {
    Side { name, way, hold, huge_pages: true }
}

const fn small_pages(name: &'static str, way: Way) -> Side {
    Side { name, way, hold: Hold::Optimistic, huge_pages: false }
}

const ARRAY: Side = plain("array", Way::Array);
const ARRAY_PLAIN: Side = plain("array-plain", Way::ArrayPlain);
const DIRECT: Side = plain("direct", Way::Direct);
const HASH: Side = plain("hash", Way::Hash);
const HASH_OPTIMISTIC: Side = plain("hash+optimistic", Way::HashOptimistic);
const HASH_INLINED: Side = plain("hash+inlined", Way::HashInlined);
const HASH_PREFERRED: Side = plain("hash+preferred", Way::HashPreferred);
const HASH_OPTIMISTIC_INLINED: Side = plain("hash+optimistic+inlined", Way::HashOptimisticInlined);
const PREDICTIVE_HASHED: Side = plain("predictive, by hash", Way::PredictiveHashed);
const OPEN: Side = plain("open", Way::Open);
const PREDICTIVE: Side = plain("predictive", Way::Predictive);
const SIMD: Side = plain("simd", Way::Simd);
const VM: Side = plain("vm", Way::Vm);
const VM_HUGE: Side = plain("vm-huge", Way::VmHuge);
const ARRAY_SMALL_PAGES: Side = small_pages("array, small pages", Way::Array);
const HASH_SMALL_PAGES: Side = small_pages("hash, small pages", Way::Hash);
const PREDICTIVE_SMALL_PAGES: Side = small_pages("predictive, small pages", Way::Predictive);

/// Each translation once.
pub(crate) const PEERS: &[Side] = &[ARRAY, DIRECT, HASH, OPEN, PREDICTIVE, SIMD, VM, VM_HUGE];

/// All of point lookups: the peers, the array without preferred frames, the steps from `hash` to
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

/// Those that evict.
pub(crate) const EVICTING: &[Side] = &[ARRAY, HASH, OPEN, PREDICTIVE, SIMD, VM];

/// Those that move pages to the frames that they prefer, of which places are looked at.
pub(crate) const PROMOTING: &[Side] = &[ARRAY, PREDICTIVE_HASHED, PREDICTIVE];

/// The steps of scalecache.txt 4.2, and where no step is left to take.
pub(crate) const HOLDS: &[Side] = &[
    holding("hash, shared", Way::Hash, Hold::Shared),
    holding("hash, group", Way::Hash, Hold::Group),
    holding("simd, shared", Way::Simd, Hold::Shared),
    holding("simd, group", Way::Simd, Hold::Group),
    holding("simd, core", Way::Simd, Hold::Core),
    holding("simd, optimistic", Way::Simd, Hold::Optimistic),
    holding("array, group", Way::Array, Hold::Group),
    holding("array, optimistic", Way::Array, Hold::Optimistic),
];
