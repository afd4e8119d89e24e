//! Doing again what the log says of the pages of trees; `docs/durability.md`, R7.
//!
//! A record finds its page in the state in which it was logged, so that it is done by the very
//! edits that were done then. That the page is one that the record can be about is checked all the
//! same: a page that was freed and written by others since may be met first. (That it is a sound
//! page of its kind was checked when it was loaded, or when its full-page image was redone.)

use polder_format::log::{LoggedValue, Operation};
use polder_pool::Swip;
use polder_pool::bytes::PageMut;
use polder_structure::page::copy_of;

use crate::node::{MAX_VALUE_BYTES, NewValue, NodeMut, NodeRef, Split};
use crate::node::{max_key_len, must_overflow, overflow_pages};

/// Does one record to its page.
///
/// # Errors
/// If the record cannot be about this page. The page is then to be thrown away.
pub fn redo(operation: &Operation<'_>, page: PageMut<'_>) -> Result<(), &'static str> {
    let mut node = NodeMut::new(page);
    let seen = node.node();
    if !seen.is_node() {
        return Err("a record of a tree is about a page that is no node");
    }
    let at_leaf = matches!(operation, Operation::Insert { .. } | Operation::Remove { .. });
    let at_any = matches!(operation, Operation::Split { .. } | Operation::RightHalf { .. });
    if at_leaf != seen.is_leaf() && !at_any {
        return Err("a record of a tree is about a node of another level");
    }
    let no_room = |_| "a record of a tree has no room in its node";
    match *operation {
        Operation::Insert { version, key, value, .. } => {
            check_covers(&node, key)?;
            let size = node.node().page().size();
            let (possible, value) = match value {
                LoggedValue::Inline(bytes) => {
                    (!must_overflow(size, key.len(), bytes.len()), NewValue::Inline(bytes))
                }
                LoggedValue::Long { len, run, link } => {
                    let pages = overflow_pages(size, len);
                    let runs = u64::from(run) <= pages;
                    (
                        len <= MAX_VALUE_BYTES && runs && link != 0,
                        NewValue::Overflow { len, run, link },
                    )
                }
            };
            if !possible {
                return Err("a record of a tree has a value that no leaf can have");
            }
            match node.node().search_covered(key) {
                Ok(slot) => node.replace_value(slot, version, value).map_err(no_room),
                Err(slot) => node.insert_entry(slot, key, version, value).map_err(no_room),
            }
        }
        Operation::Remove { key } => {
            check_covers(&node, key)?;
            let slot = node.node().search_covered(key);
            node.remove_entry(slot.map_err(|_| "a record removes a key that is not there")?);
            Ok(())
        }
        Operation::InsertChild { link, separator } => {
            check_divides(&node, separator)?;
            if link == 0 || !Swip::new(link).is_unswizzled() {
                return Err("a record of a tree has no link to its child");
            }
            node.insert_child(separator, link).map_err(no_room)
        }
        Operation::RemoveChild { index } => {
            let index = index as usize;
            if index == 0 || index > node.node().count() {
                return Err("a record removes a child that is not there");
            }
            node.remove_child(index);
            Ok(())
        }
        Operation::Split { left_count, separator, .. }
        | Operation::RightHalf { left_count, separator, .. } => {
            check_divides(&node, separator)?;
            let split = Split::again(separator, left_count as usize);
            if !node.node().admits(&split) {
                return Err("a record splits a node where it cannot be split");
            }
            let whole = copy_of(node.node().page());
            let old = NodeRef::new(whole.page());
            match *operation {
                Operation::Split { right, .. } => node.keep_left(old, right, &split),
                _ => node.keep_right(old, &split),
            }
            Ok(())
        }
        _ => Err("a record is not one of a tree"),
    }
}

fn check_covers(node: &NodeMut<'_>, key: &[u8]) -> Result<(), &'static str> {
    if key.len() > max_key_len(node.node().page().size()) {
        return Err("a record of a tree has a key that is too long");
    }
    match node.node().compare_to_fences(key) {
        std::cmp::Ordering::Equal => Ok(()),
        _ => Err("a record of a tree is about a key that its node does not cover"),
    }
}

/// That a separator leaves something on both of its sides.
fn check_divides(node: &NodeMut<'_>, separator: &[u8]) -> Result<(), &'static str> {
    check_covers(node, separator)?;
    match node.node().lower_fence_is(separator) {
        true => Err("a record of a tree splits a node at its lower fence"),
        false => Ok(()),
    }
}
