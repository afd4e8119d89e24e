//! Stock-level, clause 2.8: how many of the items that were ordered last are running out.

use super::*;

/// Orders that it looks at.
const ORDERS: u32 = 20;

impl Client<'_> {
    pub(super) fn stock_level(&mut self, w: u16, d: u8, threshold: i16) -> Result<End, BenchError> {
        let Client { tables, found: items, wanted, many, .. } = self;
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
        if *many {
            wanted.clear();
            wanted.extend(items.iter().map(|item| keys::stock(w, *item)));
            let mut missing = None;
            tables.stock.get_many(wanted, |at, bytes| {
                match bytes.and_then(Row::<Stock, _>::of) {
                    Some(row) => low += u32::from(row.quantity.get() < threshold),
                    None => missing = Some(at),
                }
            })?;
            if let Some(at) = missing {
                return Err(BenchError::no_row(&tables.stock, &wanted[at]));
            }
        }
        for item in items.iter().filter(|_| !*many) {
            let quantity =
                look(&tables.stock, &keys::stock(w, *item), |row: &Stock| row.quantity.get())?;
            low += u32::from(quantity < threshold);
        }
        std::hint::black_box(low);
        Ok(End::Committed)
    }
}
