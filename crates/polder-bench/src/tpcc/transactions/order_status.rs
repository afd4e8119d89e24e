//! Order-status, clause 2.6: a customer's newest order, with its lines.

use std::hint::black_box;

use super::*;

impl Client<'_> {
    pub(super) fn order_status(&mut self, w: u16) -> Tried {
        let (tables, d) = (self.tables, input::district(&mut self.random));
        let c = self.draw_customer(w, d)?;
        look(&tables.customer, &keys::customer(w, d, c), |row: &Customer| {
            black_box((row.first, row.middle, row.last, row.balance.get()));
        })?;
        let bounds = [0, keys::LAST_ORDER].map(|o| keys::order_by_customer(w, d, c, o));
        let mut newest = tables.order_by_customer.range(bounds[0]..=bounds[1]);
        let number = newest.next_entry_back()?.and_then(|(key, _)| keys::order_of_customer(key));
        let o = number.ok_or_else(|| BenchError::no_row(&tables.order_by_customer, &bounds[1]))?;
        let key = keys::order(w, d, o);
        let said = look(&tables.orders, &key, |row: &Order| {
            black_box((row.entry_d.get(), row.carrier_id));
            row.ol_cnt
        })?;
        let mut count = 0;
        self.each_line(w, d, o..o + 1, |row| {
            black_box((row.i_id.get(), row.supply_w_id.get(), row.quantity));
            black_box((row.amount.get(), row.delivery_d.get()));
            count += 1;
        })?;
        match count == said {
            true => Ok(true),
            false => Err(BenchError::no_row(&tables.order_line, &key)),
        }
    }
}
