//! Delivery, clause 2.7: the oldest open order of each district is delivered.

use super::*;

/// An order that is delivered now, by district and number.
#[derive(Clone, Copy)]
struct Open {
    d: u8,
    o: u32,
    /// The customer, and how many lines.
    said: (u16, u8),
}

impl Client<'_> {
    pub(super) fn delivery(&mut self, w: u16) -> Tried {
        let carrier = within(&mut self.random, 1, 10) as u8;
        let mut orders = Vec::new();
        for d in 1..=DISTRICTS {
            orders.extend(self.oldest_open(w, d)?.map(|o| Open { d, o, said: (0, 0) }));
        }
        let tables = self.tables;
        self.look_ahead(&tables.orders, orders.iter().map(|of| keys::order(w, of.d, of.o)))?;
        for order in &mut orders {
            match self.take(w, order, carrier)? {
                Some(said) => order.said = said,
                None => return Ok(false),
            }
        }
        let lines = orders.iter().flat_map(|of| (1..=of.said.1).map(move |line| (of, line)));
        let lines = lines.map(|(of, line)| keys::order_line(w, of.d, of.o, line));
        self.look_ahead(&tables.order_line, lines)?;
        let customers = orders.iter().map(|of| keys::customer(w, of.d, of.said.0));
        self.look_ahead(&tables.customer, customers)?;
        for order in &orders {
            self.deliver(w, order)?;
        }
        self.commit()
    }

    /// The number of the district's oldest open order, if it has one.
    fn oldest_open(&self, w: u16, d: u8) -> Result<Option<u32>, BenchError> {
        let mut open = self.tables.new_order.range(keys::orders(w, d));
        Ok(open.next_entry()?.and_then(|(key, _)| keys::order_number(key)))
    }

    /// The order is open no more, and has a carrier. Gives its customer and how many lines it has;
    /// `None` if somebody else has just delivered it.
    fn take(&mut self, w: u16, order: &Open, carrier: u8) -> Result<Option<(u16, u8)>, BenchError> {
        let (tables, key) = (self.tables, keys::order(w, order.d, order.o));
        let Some(version) = tables.new_order.version(key)? else { return Ok(None) };
        self.batch.expect(&tables.new_order, key, Some(version)).delete(&tables.new_order, key);
        self.batch_bytes += key.len() as u64;
        let said = self.change(&tables.orders, &key, |row: &mut Order| {
            row.carrier_id = carrier;
            (row.c_id.get(), row.ol_cnt)
        })?;
        Ok(Some(said))
    }

    /// The lines of the order are delivered, and its customer owes their sum.
    fn deliver(&mut self, w: u16, order: &Open) -> Result<(), BenchError> {
        let (tables, Open { d, o, said: (c, lines) }) = (self.tables, *order);
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
        })
    }
}
