//! Order-status, clause 2.6: a customer's newest order, with its lines.

use super::*;

impl Client<'_> {
    pub(super) fn order_status(&mut self, w: u16, d: u8, by: By) -> Result<End, BenchError> {
        let c = self.customer(w, d, by)?;
        let tables = self.tables;
        look(&tables.customer, &keys::customer(w, d, c), |row| {
            std::hint::black_box((
                row.get(Customer::FIRST),
                row.get(Customer::MIDDLE),
                row.get(Customer::LAST),
                row.get(Customer::BALANCE),
            ));
        })?;
        let bounds = [0, keys::LAST_ORDER].map(|o| keys::order_by_customer(w, d, c, o));
        let mut newest = tables.order_by_customer.range(bounds[0]..=bounds[1]);
        let number = newest.next_entry_back()?.and_then(|(key, _)| keys::order_of_customer(key));
        let o = number.ok_or_else(|| BenchError::no_row(&tables.order_by_customer, &bounds[1]))?;
        let key = keys::order(w, d, o);
        let said = look(&tables.orders, &key, |row| {
            std::hint::black_box((row.get(Order::ENTRY_D), row.get(Order::CARRIER_ID)));
            row.get(Order::OL_CNT)
        })?;
        let mut lines = tables.order_line.range(keys::order_lines(w, d, o..o + 1));
        let mut count = 0;
        while let Some((key, value)) = lines.next_entry()? {
            let row = Row::<OrderLine, _>::of(value);
            let row = row.ok_or_else(|| BenchError::no_row(&tables.order_line, key))?;
            std::hint::black_box((
                row.get(OrderLine::I_ID),
                row.get(OrderLine::SUPPLY_W_ID),
                row.get(OrderLine::QUANTITY),
                row.get(OrderLine::AMOUNT),
                row.get(OrderLine::DELIVERY_D),
            ));
            count += 1;
        }
        if count != said {
            return Err(BenchError::no_row(&tables.order_line, &key));
        }
        Ok(End::Committed)
    }
}
