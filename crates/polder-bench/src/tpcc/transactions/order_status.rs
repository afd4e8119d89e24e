//! Order-status, clause 2.6: a customer's newest order, with its lines.

use std::hint::black_box;

use super::*;

impl<const AWAITS: bool> Client<'_, AWAITS> {
    pub(super) async fn order_status(&mut self, w: u16) -> Tried {
        let (tables, d) = (self.tables, input::district(&mut self.random));
        let c = self.draw_customer(w, d).await?;
        let key = keys::customer(w, d, c);
        let show = |row: &Customer| {
            black_box((row.first, row.middle, row.last, row.balance.get()));
        };
        self.look(&tables.customer, &key, show).await?;
        let bounds = [0, keys::LAST_ORDER].map(|o| keys::order_by_customer(w, d, c, o));
        let orders = self.rows_in(&tables.order_by_customer, bounds[0]..=bounds[1]);
        let number = orders.last(|key, _| keys::order_of_customer(key)).await?.flatten();
        let o = number.ok_or_else(|| BenchError::no_row(&tables.order_by_customer, &bounds[1]))?;
        let key = keys::order(w, d, o);
        let show = |row: &Order| {
            black_box((row.entry_d.get(), row.carrier_id));
            row.ol_cnt
        };
        let said = self.look(&tables.orders, &key, show).await?;
        let mut count = 0;
        let show = |row: &OrderLine| {
            black_box((row.i_id.get(), row.supply_w_id.get(), row.quantity));
            black_box((row.amount.get(), row.delivery_d.get()));
            count += 1;
        };
        self.each_line(w, d, o..o + 1, show).await?;
        match count == said {
            true => Ok(true),
            false => Err(BenchError::no_row(&tables.order_line, &key)),
        }
    }
}
