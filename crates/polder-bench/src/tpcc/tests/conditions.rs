//! Each condition notices what breaks it.

use polder::Table;

use super::*;

/// Changes a row.
fn patch<K: Kind>(table: &Table, key: &[u8], change: impl FnOnce(&mut K)) {
    let mut row = table.get(key).unwrap().unwrap();
    change(K::mut_from_prefix(&mut row).unwrap().0);
    table.put(key, row).unwrap();
}

/// What is said of a store that is broken in this way.
fn broken(damage: impl FnOnce(&Tables)) -> Vec<String> {
    let loaded = Loaded::small();
    damage(&loaded.tables);
    loaded.wrong()
}

#[test]
fn condition_1_adds_up_what_was_taken() {
    let taken = broken(|tables| {
        patch::<Warehouse>(&tables.warehouse, &keys::warehouse(2), |row| {
            row.ytd += 1;
        });
    });
    assert_eq!(taken, ["condition 1: warehouse 2 has taken 300001, its districts 300000"]);
    let taken = broken(|tables| {
        patch::<District>(&tables.district, &keys::district(1, 3), |row| {
            row.ytd -= 5;
        });
    });
    assert_eq!(taken, ["condition 1: warehouse 1 has taken 300000, its districts 299995"]);
}

#[test]
fn condition_2_knows_the_last_order() {
    let next = broken(|tables| {
        patch::<District>(&tables.district, &keys::district(1, 10), |row| {
            row.next_o_id.set(32);
        });
    });
    let [orders, new_orders] = &next[..] else { panic!("{next:?}") };
    let place = "condition 2: warehouse 1, district 10: the next order is 32, but";
    assert_eq!(*orders, format!("{place} there are 30, the last 30"));
    assert_eq!(*new_orders, format!("{place} the last new one is 30"));
    let gap = broken(|tables| {
        tables.orders.delete(keys::order(2, 1, 7)).unwrap();
    });
    assert!(gap[0].starts_with("condition 2: warehouse 2, district 1:"), "{gap:?}");
    // The lines of the lost order are still there.
    assert!(gap[1].starts_with("condition 4: warehouse 2, district 1:"), "{gap:?}");
    let newest = broken(|tables| {
        tables.new_order.delete(keys::order(1, 1, 30)).unwrap();
    });
    assert_eq!(newest.len(), 1);
    assert!(newest[0].ends_with("the next order is 31, but the last new one is 29"), "{newest:?}");
}

#[test]
fn condition_3_knows_the_open_orders() {
    let gap = broken(|tables| {
        tables.new_order.delete(keys::order(2, 4, 25)).unwrap();
    });
    let what = "condition 3: warehouse 2, district 4: new orders 22 to 30, but there are 8";
    assert_eq!(gap, [what]);
}

#[test]
fn condition_4_counts_lines() {
    let lost = broken(|tables| {
        tables.order_line.delete(keys::order_line(1, 9, 30, 1)).unwrap();
    });
    assert_eq!(lost.len(), 1);
    assert!(lost[0].starts_with("condition 4: warehouse 1, district 9: orders have"), "{lost:?}");
    let said = broken(|tables| {
        patch::<Order>(&tables.orders, &keys::order(1, 1, 1), |row| row.ol_cnt = 16);
    });
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("condition 4: warehouse 1, district 1:"), "{said:?}");
}

#[test]
fn a_district_without_open_orders_is_consistent() {
    let none = broken(|tables| {
        for o in 22..=30 {
            tables.new_order.delete(keys::order(1, 1, o)).unwrap();
        }
    });
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn rows_that_are_missing_or_cut_off_are_named() {
    let loaded = Loaded::small();
    let key = keys::district(2, 2);
    let check = || check(&loaded.tables, 2, &Interrupt::silent()).unwrap_err().to_string();
    loaded.tables.district.put(key, b"short").unwrap();
    assert!(check().contains("table district"), "{}", check());
    loaded.tables.district.delete(key).unwrap();
    assert!(check().contains("table district"), "{}", check());
}
