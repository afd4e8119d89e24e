//! Order-status, clause 2.6: a customer's newest order, with its lines.

use super::*;

impl Client<'_> {
    pub(super) fn order_status(&mut self, w: u16, d: u8, by: By) -> Result<End, BenchError> {
        let c = self.customer(w, d, by)?;
        let tables = self.tables;
        look(&tables.customer, &keys::customer(w, d, c), |row: &Customer| {
            std::hint::black_box((row.first, row.middle, row.last, row.balance.get()));
        })?;
        let bounds = [0, keys::LAST_ORDER].map(|o| keys::order_by_customer(w, d, c, o));
        let mut newest = tables.order_by_customer.range(bounds[0]..=bounds[1]);
        let number = newest.next_entry_back()?.and_then(|(key, _)| keys::order_of_customer(key));
        let o = number.ok_or_else(|| BenchError::no_row(&tables.order_by_customer, &bounds[1]))?;
        let key = keys::order(w, d, o);
        let said = look(&tables.orders, &key, |row: &Order| {
            std::hint::black_box((row.entry_d.get(), row.carrier_id));
            row.ol_cnt
        })?;
        let mut lines = tables.order_line.range(keys::order_lines(w, d, o..o + 1));
        let mut count = 0;
        while let Some((key, value)) = lines.next_entry()? {
            let row = Row::<OrderLine, _>::of(value);
            let row = row.ok_or_else(|| BenchError::no_row(&tables.order_line, key))?;
            std::hint::black_box((
                row.i_id.get(),
                row.supply_w_id.get(),
                row.quantity,
                row.amount.get(),
                row.delivery_d.get(),
            ));
            count += 1;
        }
        if count != said {
            return Err(BenchError::no_row(&tables.order_line, &key));
        }
        Ok(End::Committed)
    }
}
