//! Stock-level, clause 2.8: how many of the items that were ordered last are running out.

use super::*;

/// Orders that it looks at.
const ORDERS: u32 = 20;

impl<const AWAITS: bool> Client<'_, AWAITS> {
    pub(super) async fn stock_level(&mut self, w: u16) -> Tried {
        let (tables, d) = (self.tables, input::district(&mut self.random));
        let threshold = within(&mut self.random, 10, 20) as i16;
        let key = keys::district(w, d);
        let next = self.look(&tables.district, &key, |row: &District| row.next_o_id.get()).await?;
        let mut items = Vec::new();
        let orders = next.saturating_sub(ORDERS)..next;
        self.each_line(w, d, orders, |row| items.push(row.i_id.get())).await?;
        items.sort_unstable();
        items.dedup();
        self.look_ahead(&tables.stock, items.iter().map(|item| keys::stock(w, *item)))?;
        let mut low = 0;
        for item in items {
            let key = keys::stock(w, item);
            let quantity = self.look(&tables.stock, &key, |row: &Stock| row.quantity.get()).await?;
            low += u32::from(quantity < threshold);
        }
        std::hint::black_box(low);
        Ok(true)
    }
}
