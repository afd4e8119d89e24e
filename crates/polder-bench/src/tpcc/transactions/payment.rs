//! Payment, clause 2.5: a customer pays, and warehouse and district count it.

use std::io::{Cursor, Write};

use super::super::data::rows::CUSTOMER_DATA_BYTES;
use super::new_order::other_warehouse;
use super::*;

/// What the terminal sends.
pub(super) struct Input {
    w: u16,
    d: u8,
    /// Where the customer belongs.
    c_w: u16,
    c_d: u8,
    by: By,
    amount: i64,
}

impl Input {
    pub(super) fn draw(client: &mut Client<'_>, w: u16) -> Input {
        let random = &mut client.random;
        let d = district(random);
        let (c_w, c_d) = match percent(random, 15) {
            true => (other_warehouse(random, w, client.warehouses), district(random)),
            false => (w, d),
        };
        let by = By::draw(random, client.scale);
        Input { w, d, c_w, c_d, by, amount: within(random, 100, 500_000) as i64 }
    }
}

impl Client<'_> {
    pub(super) fn payment(&mut self, input: &Input) -> Tried {
        let Input { w, d, c_w, c_d, by, amount } = *input;
        let c = self.customer(c_w, c_d, by)?;
        let Client { tables, rows, changes, .. } = self;

        let (key, row) = (keys::warehouse(w), &mut rows.warehouse);
        let version = read(&tables.warehouse, &key, row)?;
        row.ytd += amount;
        changes.replace(&tables.warehouse, &key, version, row.bytes());

        let (key, row) = (keys::district(w, d), &mut rows.district);
        let version = read(&tables.district, &key, row)?;
        let taken = row.ytd.get() + amount;
        row.ytd.set(taken);
        changes.replace(&tables.district, &key, version, row.bytes());

        let (key, row) = (keys::customer(c_w, c_d, c), &mut rows.customer);
        let version = read(&tables.customer, &key, row)?;
        row.balance -= amount;
        row.ytd_payment += amount;
        row.payment_cnt += 1;
        if row.credit == *b"BC" {
            let mut note = Cursor::new([0; 64]);
            // Six numbers of at most six digits fit.
            let _ = write!(note, "{c} {c_d} {c_w} {d} {w} {amount}|");
            let len = note.position() as usize;
            row.push_front(&note.get_ref()[..len], CUSTOMER_DATA_BYTES);
        }
        changes.replace(&tables.customer, &key, version, row.bytes());

        fill_history(rows, input, c);
        let history = rows.history.bytes();
        changes.insert(&tables.history, &keys::history(w, d, taken), history);
        self.commit()
    }
}

/// Makes the row of a payment of which warehouse and district are read.
fn fill_history(rows: &mut Rows, input: &Input, c: u16) {
    let row = &mut rows.history;
    row.c_id.set(c);
    row.c_d_id = input.c_d;
    row.c_w_id.set(input.c_w);
    row.d_id = input.d;
    row.w_id.set(input.w);
    row.date.set(input::now());
    row.amount.set(input.amount);
    row.clear_data();
    // Both names, with four spaces between.
    for name in [&rows.warehouse.name[..], b"    ", &rows.district.name] {
        row.push(name.split(|byte| *byte == 0).next().unwrap_or_default());
    }
}
