//! Doing again what the log says of buckets; `docs/durability.md`, R7.
//!
//! Nodes, chains and new pages are logged as full-page images and patches, which are the pool's
//! own. What is left are the entries of buckets and their splits, done by the very edits that were
//! done then. That the page is one that the record can be about is checked all the same: a page
//! that was freed and written by others since may be met first.

use polder_format::log::{LoggedValue, Operation};
use polder_pool::bytes::PageMut;
use polder_structure::page::copy_of;

use crate::bucket::{BucketMut, BucketRef, max_entry_len};
use crate::hash::{KeyHash, Side};

/// Does one record to its bucket. The pool does so by the page's kind ([`KINDS`](crate::KINDS)).
///
/// # Errors
/// If the record cannot be about this page. The page is then to be thrown away.
pub fn redo(operation: &Operation<'_>, page: PageMut<'_>) -> Result<(), &'static str> {
    let mut bucket = BucketMut::new(page);
    if !bucket.bucket().is_bucket() {
        return Err("a record of a hash index is about a page that is no bucket");
    }
    match *operation {
        Operation::Insert { key, value: LoggedValue::Inline(value), .. } => {
            let limit = max_entry_len(bucket.bucket().page().size());
            if key.len() + value.len() > limit {
                return Err("a record of a hash index has an entry that is too long");
            }
            let hash = check_covers(bucket.bucket(), key)?;
            let done = match bucket.bucket().search(key, hash) {
                Ok(entry) => bucket.replace(entry, key, value),
                Err(place) => bucket.insert(place, hash, key, value),
            };
            done.map_err(|_| "a record of a hash index has no room in its bucket")
        }
        Operation::Remove { key } => {
            let hash = check_covers(bucket.bucket(), key)?;
            let entry = bucket.bucket().search(key, hash);
            bucket.remove(entry.map_err(|_| "a record removes a key that is not there")?);
            Ok(())
        }
        Operation::Split { left_count, separator: [], .. } => {
            let whole = bucket.bucket();
            let possible = whole.prefix().bits() < 64 && !whole.has_next();
            if !possible || whole.count_of(Side::Low) != left_count as usize {
                return Err("a record splits a bucket where it cannot be split");
            }
            let whole = copy_of(whole.page());
            bucket.keep(Side::Low, BucketRef::new(whole.page()));
            Ok(())
        }
        _ => Err("a record is not one of a hash index"),
    }
}

fn check_covers(bucket: BucketRef<'_>, key: &[u8]) -> Result<KeyHash, &'static str> {
    let hash = KeyHash::of(key);
    let here = bucket.prefix().covers(hash) && (!bucket.has_next() || bucket.chain_hash() == hash);
    here.then_some(hash)
        .ok_or("a record of a hash index is about a key that its bucket does not cover")
}
