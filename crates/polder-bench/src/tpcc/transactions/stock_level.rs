//! Stock-level, clause 2.8: how many of the items that were ordered last are running out.

use super::*;

/// Orders that it looks at.
const ORDERS: u32 = 20;

impl Client<'_> {
    pub(super) fn stock_level(&mut self, w: u16, d: u8, threshold: i16) -> Result<End, BenchError> {
        let Client { tables, found: items, .. } = self;
        let next =
            look(&tables.district, &keys::district(w, d), |row: &District| row.next_o_id.get())?;
        let orders = next.saturating_sub(ORDERS)..next;
        let mut lines = tables.order_line.range(keys::order_lines(w, d, orders));
        items.clear();
        while let Some((key, value)) = lines.next_entry()? {
            let row = Row::<OrderLine, _>::of(value);
            let row = row.ok_or_else(|| BenchError::no_row(&tables.order_line, key))?;
            items.push(row.i_id.get());
        }
        items.sort_unstable();
        items.dedup();
        let mut low = 0;
        for item in items.iter() {
            let quantity =
                look(&tables.stock, &keys::stock(w, *item), |row: &Stock| row.quantity.get())?;
            low += u32::from(quantity < threshold);
        }
        std::hint::black_box(low);
        Ok(End::Committed)
    }
}
