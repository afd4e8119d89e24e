//! Delivery, clause 2.7: the oldest open order of each district is delivered.

use super::*;

impl Client<'_> {
    pub(super) fn delivery(&mut self, w: u16) -> Tried {
        let carrier = within(&mut self.random, 1, 10) as u8;
        for d in 1..=DISTRICTS {
            if !self.deliver(w, d, carrier)? {
                return Ok(false);
            }
        }
        self.commit()
    }

    /// One district's. A district may have no open order. False if somebody else has just
    /// delivered the order that was found.
    fn deliver(&mut self, w: u16, d: u8, carrier: u8) -> Tried {
        let tables = self.tables;
        let mut open = tables.new_order.range(keys::orders(w, d));
        let oldest = open.next_entry()?.and_then(|(key, _)| keys::order_number(key));
        let Some(o) = oldest else { return Ok(true) };
        let key = keys::order(w, d, o);
        let Some(version) = tables.new_order.version(key)? else { return Ok(false) };
        self.batch.expect(&tables.new_order, key, Some(version)).delete(&tables.new_order, key);
        self.batch_bytes += key.len() as u64;

        let (c, lines) = self.change(&tables.orders, &key, |row: &mut Order| {
            row.carrier_id = carrier;
            (row.c_id.get(), row.ol_cnt)
        })?;
        let (now, mut sum) = (input::now(), 0);
        for line in 1..=lines {
            let key = keys::order_line(w, d, o, line);
            sum += self.change(&tables.order_line, &key, |row: &mut OrderLine| {
                row.delivery_d.set(now);
                row.amount.get()
            })?;
        }
        self.change(&tables.customer, &keys::customer(w, d, c), |row: &mut Customer| {
            row.balance += sum;
            row.delivery_cnt += 1;
        })?;
        Ok(true)
    }
}
