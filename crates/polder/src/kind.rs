//! The translations that a store can have, by the names that users know.

use std::fmt;

/// How a page id becomes a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TranslationKind {
    /// An array indexed by page number (calico.txt). Evicts; the default.
    #[default]
    Array,
    /// The page number is the frame. Never evicts: all data must fit in the budget.
    Direct,
    /// A chained hash table with a latch on each bucket: the traditional buffer pool.
    Hash,
    /// An open-addressing hash table in partitions with a latch each.
    Open,
    /// A hash table without latches for readers, and pages in predictable frames
    /// (predictive-translation.txt).
    Predictive,
    /// A hash table whose buckets are searched by one vector instruction (scalecache.txt).
    Simd,
    /// Links that hold the frames of their pages, and a table for the others (leanstore.txt).
    Swizzle,
    /// `Array`, with the frame of its page in a link as a hint.
    ArraySwizzled,
    /// The operating system's page table (vmcache): fast while data is resident, a system call for
    /// what is evicted.
    Vm,
    /// The same on huge pages. Never evicts: all data must fit in the budget.
    VmHuge,
}

impl TranslationKind {
    /// All of them.
    pub const ALL: [TranslationKind; 10] = [
        TranslationKind::Array,
        TranslationKind::Direct,
        TranslationKind::Hash,
        TranslationKind::Open,
        TranslationKind::Predictive,
        TranslationKind::Simd,
        TranslationKind::Swizzle,
        TranslationKind::ArraySwizzled,
        TranslationKind::Vm,
        TranslationKind::VmHuge,
    ];

    /// The names of all, for help texts and messages.
    pub fn names() -> String {
        TranslationKind::ALL.map(TranslationKind::name).join(", ")
    }

    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            TranslationKind::Array => "array",
            TranslationKind::Direct => "direct",
            TranslationKind::Hash => "hash",
            TranslationKind::Open => "open",
            TranslationKind::Predictive => "predictive",
            TranslationKind::Simd => "simd",
            TranslationKind::Swizzle => "swizzle",
            TranslationKind::ArraySwizzled => "array-swizzled",
            TranslationKind::Vm => "vm",
            TranslationKind::VmHuge => "vm-huge",
        }
    }
}

impl fmt::Display for TranslationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
