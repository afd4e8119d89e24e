use super::super::Scale;
use super::*;

/// The highest warehouse that the command line takes.
const LAST_WAREHOUSE: u16 = 10_000;

#[test]
fn keys_are_in_the_order_of_their_columns() {
    let lines: Vec<_> = [(1, 1, 1, 1), (1, 1, 1, 15), (1, 1, 2, 0), (1, 2, 0, 0)]
        .into_iter()
        .chain([(2, 0, 0, 0), (2, 0, 65_536, 0), (256, 1, 0, 0)])
        .map(|(w, d, o, line)| order_line(w, d, o, line))
        .collect();
    assert!(lines.is_sorted());
    assert!(history(1, 1, 255) < history(1, 1, 256) && history(1, 9, 1) < history(2, 1, 0));
    assert!(stock(1, 100_000) < stock(2, 1) && customer(1, 10, 3000) < customer(2, 1, 1));
    assert!(order_by_customer(1, 1, 1, LAST_ORDER) < order_by_customer(1, 1, 2, 0));
    assert!(district(1, 10) < district(2, 1));
}

#[test]
fn the_largest_columns_fit() {
    let Scale { items, customers_per_district: customers, .. } = Scale::FULL;
    let w = LAST_WAREHOUSE;
    assert_eq!(stock(w, items), (u32::from(w) << ITEM_BITS | items).to_be_bytes());
    assert_eq!(customer(w, DISTRICTS, customers)[..2], w.to_be_bytes());
    let line = order_line(w, DISTRICTS, LAST_ORDER, 15);
    assert_eq!(order_number(&line), Some(LAST_ORDER));
    assert!(orders(w, DISTRICTS).contains(&line));
    let key = order_by_customer(w, DISTRICTS, customers, LAST_ORDER);
    assert_eq!(order_of_customer(&key), Some(LAST_ORDER));
    assert!(history(w, DISTRICTS, 1 << 44) > history(w, DISTRICTS, 1));
}

#[test]
fn lines_belong_to_their_orders() {
    let of_orders = order_lines(3, 4, 100..102);
    for (o, line, is_in) in [(99, 15, false), (100, 1, true), (101, 15, true), (102, 1, false)] {
        assert_eq!(of_orders.contains(&order_line(3, 4, o, line)), is_in);
        assert!(orders(3, 4).contains(&order_line(3, 4, o, line)));
    }
    assert!(!orders(3, 4).contains(&order(3, 5, 0)) && !orders(3, 4).contains(&order(4, 4, 1)));
}

#[test]
fn shorter_names_come_first_and_all_of_a_name_are_together() {
    let name = |name: &[u8]| {
        let mut padded = [0; NAME_BYTES];
        padded[..name.len()].copy_from_slice(name);
        padded
    };
    let key = |last: &[u8], first: &[u8], c| customer_by_name(1, 1, &name(last), &name(first), c);
    let keys = [key(b"BAR", b"Z", 9), key(b"BARBAR", b"A", 2), key(b"BARBAR", b"AA", 1)];
    assert!(keys.is_sorted());
    let of_name = customers_of_name(1, 1, &name(b"BARBAR"));
    let found: Vec<_> = keys.iter().filter(|key| key.starts_with(&of_name)).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(customer_of_name(found[0]), Some(2));
}
