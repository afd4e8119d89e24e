//! Delivery, clause 2.7: the oldest open order of each district is delivered.

use super::*;

/// An order that is delivered now: its district and number, its customer, and how many lines it has.
struct Taken {
    d: u8,
    o: u32,
    c: u16,
    lines: u8,
}

impl<const AWAITS: bool> Client<'_, AWAITS> {
    pub(super) async fn delivery(&mut self, w: u16) -> Tried {
        let carrier = within(&mut self.random, 1, 10) as u8;
        let mut due = Vec::new();
        for d in 1..=DISTRICTS {
            due.extend(self.oldest_open(w, d).await?.map(|o| (d, o)));
        }
        let tables = self.tables;
        self.look_ahead(&tables.orders, due.iter().map(|&(d, o)| keys::order(w, d, o)))?;
        let mut taken = Vec::with_capacity(due.len());
        for order in due {
            let Some(order) = self.take(w, order, carrier).await? else { return Ok(false) };
            taken.push(order);
        }
        let lines = taken.iter().flat_map(|&Taken { d, o, lines, .. }| {
            (1..=lines).map(move |line| keys::order_line(w, d, o, line))
        });
        self.look_ahead(&tables.order_line, lines)?;
        let customers = taken.iter().map(|&Taken { d, c, .. }| keys::customer(w, d, c));
        self.look_ahead(&tables.customer, customers)?;
        for order in &taken {
            self.deliver(w, order).await?;
        }
        self.commit().await
    }

    /// The number of the district's oldest open order, if it has one.
    async fn oldest_open(&self, w: u16, d: u8) -> Result<Option<u32>, BenchError> {
        let mut open = self.rows_in(&self.tables.new_order, keys::orders(w, d));
        Ok(open.next(|key, _| keys::order_number(key)).await?.flatten())
    }

    /// The order is open no more, and has a carrier. `None` if somebody else has just delivered it.
    async fn take(
        &mut self,
        w: u16,
        (d, o): (u8, u32),
        carrier: u8,
    ) -> Result<Option<Taken>, BenchError> {
        let (tables, key) = (self.tables, keys::order(w, d, o));
        let Some(version) = self.version(&tables.new_order, &key).await? else { return Ok(None) };
        self.batch.expect(&tables.new_order, key, Some(version)).delete(&tables.new_order, key);
        self.batch_bytes += key.len() as u64;
        let take = |row: &mut Order| {
            row.carrier_id = carrier;
            Taken { d, o, c: row.c_id.get(), lines: row.ol_cnt }
        };
        Ok(Some(self.change(&tables.orders, &key, take).await?))
    }

    /// The lines of the order are delivered, and its customer owes their sum.
    async fn deliver(&mut self, w: u16, order: &Taken) -> Result<(), BenchError> {
        let (tables, &Taken { d, o, c, lines }) = (self.tables, order);
        let (now, mut sum) = (input::now(), 0);
        for line in 1..=lines {
            let key = keys::order_line(w, d, o, line);
            let deliver = |row: &mut OrderLine| {
                row.delivery_d.set(now);
                row.amount.get()
            };
            sum += self.change(&tables.order_line, &key, deliver).await?;
        }
        let owe = |row: &mut Customer| {
            row.balance += sum;
            row.delivery_cnt += 1;
        };
        self.change(&tables.customer, &keys::customer(w, d, c), owe).await
    }
}
