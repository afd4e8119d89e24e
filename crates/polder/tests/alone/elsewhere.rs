//! A process that goes to another directory while it has a store open by a relative path.

use std::env::set_current_dir;
use std::fs;

use polder::{Options, Store};

use crate::my_turn;

/// The file of the list of resident pages.
const LIST: &str = "resident";

#[test]
fn a_store_stays_where_it_was_opened() {
    let _turn = my_turn();
    let dir = tempfile::tempdir().unwrap();
    let (home, before) = (dir.path(), std::env::current_dir().unwrap());
    // Somebody else's store has the same name there.
    let theirs = home.join("elsewhere").join("s").join(LIST);
    fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    fs::write(&theirs, "theirs").unwrap();
    set_current_dir(home).unwrap();
    let store = Store::open(Options::new("s").memory_budget(8 << 20)).unwrap();
    // Of fewer pages there is no list.
    let entries = (0..3000_u32).map(|key| (key.to_be_bytes(), [7; 1000]));
    store.create_table("t").unwrap().bulk_load(entries).unwrap();
    set_current_dir("elsewhere").unwrap();
    let closed = store.close();
    set_current_dir(before).unwrap();
    closed.unwrap();
    assert_eq!(fs::read_to_string(theirs).unwrap(), "theirs");
    assert!(home.join("s").join(LIST).exists());
}
