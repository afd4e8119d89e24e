//! Delivery, clause 2.7: the oldest open order of each district is delivered.

use super::*;

impl Client<'_> {
    pub(super) fn delivery(&mut self, w: u16, carrier: u8) -> Tried {
        for d in 1..=DISTRICTS {
            if self.deliver(w, d, carrier)?.is_none() {
                return Ok(None);
            }
        }
        self.commit()
    }

    /// One district's. A district may have no open order. None if somebody else has just delivered
    /// the order that was found.
    fn deliver(&mut self, w: u16, d: u8, carrier: u8) -> Result<Option<()>, BenchError> {
        let Client { tables, rows, changes, .. } = self;
        let mut open = tables.new_order.range(keys::orders(w, d));
        let oldest = open.next_entry()?.and_then(|(key, _)| keys::order_number(key));
        let Some(o) = oldest else { return Ok(Some(())) };
        let key = keys::order(w, d, o);
        let Some(version) = tables.new_order.version(key)? else { return Ok(None) };
        changes.remove(&tables.new_order, &key, version);

        let version = read(&tables.orders, &key, &mut rows.order)?;
        rows.order.carrier_id = carrier;
        changes.replace(&tables.orders, &key, version, rows.order.bytes());

        let now = input::now();
        let mut sum = 0;
        for line in 1..=rows.order.ol_cnt {
            let key = keys::order_line(w, d, o, line);
            let version = read(&tables.order_line, &key, &mut rows.line)?;
            sum += rows.line.amount.get();
            rows.line.delivery_d.set(now);
            changes.replace(&tables.order_line, &key, version, rows.line.bytes());
        }

        let (key, row) = (keys::customer(w, d, rows.order.c_id.get()), &mut rows.customer);
        let version = read(&tables.customer, &key, row)?;
        row.balance += sum;
        row.delivery_cnt += 1;
        changes.replace(&tables.customer, &key, version, row.bytes());
        Ok(Some(()))
    }
}
