//! The list of translations: what is to know them all derives from it.

/// Calls a macro with the list of translations: each by the name of its type and that of a module,
/// and what it is in one line, in four sections:
///
/// * `evicting`: the peers that a store can have and that evict; the first is the default;
/// * `resident`: those that a store can have and that never evict;
/// * `steps`: designs of the papers with a part left out, for comparisons;
/// * `teaching`: one to learn from, with the feature `teaching`.
///
/// A store's kinds, the names of options and engines, the conformance suite and the crash tests take
/// from it what they need. Arguments in parentheses are put before the list.
///
/// The list is the same whatever is built. What stands as `#[cfg(feature = "...")]` is the feature
/// of the crate `polder` with which a store can have the translation, and has its name; this crate
/// is generic over translations, and what nobody names is not compiled.
///
/// ```
/// macro_rules! names {
///     (evicting { $($(#[$about:meta])* $name:ident as $module:ident,)* } $($rest:tt)*) => {
///         [$(<polder_pool::$name as polder_pool::Translation>::NAME),*]
///     };
/// }
/// assert!(polder_pool::translations!(names).contains(&"array"));
/// ```
#[macro_export]
macro_rules! translations {
    ($then:ident $(($($arguments:tt)*))?) => {
        $then! {
            $($($arguments)*)?
            evicting {
                /// An array indexed by page number (calico-2026). Evicts; the default.
                Array as array,
                /// `Array`, with the frame of its page in a link as a hint.
                #[cfg(feature = "array-swizzled")]
                ArraySwizzled as array_swizzled,
                /// A chained hash table with a latch on each bucket: the traditional buffer pool.
                #[cfg(feature = "hash")]
                Hash as hash,
                /// An open-addressing hash table in partitions with a latch each.
                #[cfg(feature = "open")]
                Open as open,
                /// A hash table without latches for readers, and pages in predictable frames
                /// (predictive-2026).
                #[cfg(feature = "predictive")]
                Predictive as predictive,
                /// A hash table whose buckets are searched by one vector instruction
                /// (scalecache-2025).
                #[cfg(feature = "simd")]
                Simd as simd,
                /// Links that hold the frames of their pages, and a table for the others
                /// (leanstore-2018).
                #[cfg(feature = "swizzle")]
                Swizzle as swizzle,
                /// The operating system's page table (vmcache): fast while data is resident, a
                /// system call for what is evicted.
                #[cfg(feature = "vm")]
                Vm as vm,
            }
            resident {
                /// The page number is the frame. Never evicts: all data must fit in the budget.
                #[cfg(feature = "direct")]
                Direct as direct,
                /// The operating system's page table on huge pages. Never evicts: all data must fit
                /// in the budget.
                #[cfg(feature = "vm-huge")]
                VmHuge as vm_huge,
            }
            steps {
                /// `Array` without preferred frames (calico-2026).
                ArrayPlain as array_plain,
                /// `Simd` without preferred frames (scalecache-2025).
                SimdPlain as simd_plain,
                /// `Hash` with optimistic bucket latches.
                HashOptimistic as hash_optimistic,
                /// `Hash` with the first entry in the bucket.
                HashInlined as hash_inlined,
                /// `Hash` with preferred frames.
                HashPreferred as hash_preferred,
                /// `Hash` with optimistic bucket latches and the first entry in the bucket.
                HashOptimisticInlined as hash_optimistic_inlined,
                /// `Predictive` with preferred frames by hash (predictive-2026).
                PredictiveHashed as predictive_hashed,
            }
            teaching {
                /// A sorted map behind a lock.
                Sorted as sorted,
            }
        }
    };
}

/// The sections say what they are.
#[cfg(not(loom))]
macro_rules! sections {
    (
        evicting { $($(#[$e:meta])* $evicting:ident as $em:ident,)* }
        resident { $($(#[$r:meta])* $resident:ident as $rm:ident,)* }
        $($rest:tt)*
    ) => {
        $(const _: () = assert!(<super::$evicting as super::Translation>::EVICTS);)*
        $(const _: () = assert!(!<super::$resident as super::Translation>::EVICTS);)*
    };
}
#[cfg(not(loom))]
translations!(sections);
