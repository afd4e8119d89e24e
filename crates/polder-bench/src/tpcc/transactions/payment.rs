//! Payment, clause 2.5: a customer pays, and warehouse and district count it.

use std::io::{Cursor, Write};

use super::super::data::rows::{CUSTOMER_DATA_BYTES, History};
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
        row.set(Warehouse::YTD, row.get(Warehouse::YTD) + amount);
        changes.replace(&tables.warehouse, &key, version, row.bytes());

        let (key, row) = (keys::district(w, d), &mut rows.district);
        let version = read(&tables.district, &key, row)?;
        let taken = row.get(District::YTD) + amount;
        row.set(District::YTD, taken);
        changes.replace(&tables.district, &key, version, row.bytes());

        let (key, row) = (keys::customer(c_w, c_d, c), &mut rows.customer);
        let version = read(&tables.customer, &key, row)?;
        row.set(Customer::BALANCE, row.get(Customer::BALANCE) - amount);
        row.set(Customer::YTD_PAYMENT, row.get(Customer::YTD_PAYMENT) + amount);
        row.set(Customer::PAYMENT_CNT, row.get(Customer::PAYMENT_CNT) + 1);
        if row.get(Customer::CREDIT) == *b"BC" {
            let mut note = Cursor::new([0; 64]);
            // Six numbers of at most six digits fit.
            let _ = write!(note, "{c} {c_d} {c_w} {d} {w} {amount}|");
            let len = note.position() as usize;
            row.data_mut().push_front(&note.get_ref()[..len], CUSTOMER_DATA_BYTES);
        }
        changes.replace(&tables.customer, &key, version, row.bytes());

        let mut history = [0; History::BYTES + 24];
        let len = fill_history(&mut history, input, c, &rows.warehouse, &rows.district);
        changes.insert(&tables.history, &keys::history(w, d, taken), &history[..len]);
        self.commit()
    }
}

/// Makes the row of a payment; gives its length.
fn fill_history(
    bytes: &mut [u8],
    input: &Input,
    c: u16,
    warehouse: &Row<Warehouse, Vec<u8>>,
    district: &Row<District, Vec<u8>>,
) -> usize {
    let Some(mut row) = Row::<History, _>::of(&mut *bytes) else { return 0 };
    row.set(History::C_ID, c);
    row.set(History::C_D_ID, input.c_d);
    row.set(History::C_W_ID, input.c_w);
    row.set(History::D_ID, input.d);
    row.set(History::W_ID, input.w);
    row.set(History::DATE, input::now());
    row.set(History::AMOUNT, input.amount);
    // Both names, with four spaces between.
    let mut len = History::BYTES;
    let names =
        [warehouse.get(Warehouse::NAME), *b"    \0\0\0\0\0\0", district.get(District::NAME)];
    for name in names {
        let of_name = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        bytes[len..len + of_name].copy_from_slice(&name[..of_name]);
        len += of_name;
    }
    len
}
