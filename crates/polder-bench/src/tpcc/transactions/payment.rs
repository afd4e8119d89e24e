//! Payment, clause 2.5: a customer pays, and warehouse and district count it.

use super::*;

impl<const AWAITS: bool> Client<'_, AWAITS> {
    pub(super) async fn payment(&mut self, w: u16) -> Tried {
        let (tables, d) = (self.tables, input::district(&mut self.random));
        // Where the customer belongs.
        let (c_w, c_d) = match percent(&mut self.random, 15) {
            true => (self.draw_other_warehouse(w), input::district(&mut self.random)),
            false => (w, d),
        };
        let c = self.draw_customer(c_w, c_d).await?;
        let amount = within(&mut self.random, 100, 500_000) as i64;

        let take = |row: &mut Warehouse| {
            row.ytd += amount;
            row.name
        };
        let name = self.change(&tables.warehouse, &keys::warehouse(w), take).await?;
        let take = |row: &mut District| {
            row.ytd += amount;
            (row.name, row.ytd.get())
        };
        let (district_name, taken) =
            self.change(&tables.district, &keys::district(w, d), take).await?;

        let key = keys::customer(c_w, c_d, c);
        let (version, customer) = self.read::<Customer>(&tables.customer, &key).await?;
        customer.balance -= amount;
        customer.ytd_payment += amount;
        customer.payment_cnt += 1;
        if customer.credit == *b"BC" {
            let note = format!("{c} {c_d} {c_w} {d} {w} {amount}|");
            Customer::put_note(&mut self.row, &note);
        }
        self.replace(&tables.customer, &key, version);

        let history = History {
            c_id: c.into(),
            c_d_id: c_d,
            c_w_id: c_w.into(),
            d_id: d,
            w_id: w.into(),
            date: input::now().into(),
            amount: amount.into(),
        };
        let unpadded = |name| <[u8]>::split(name, |byte| *byte == 0).next().unwrap_or_default();
        let data = [unpadded(&name), b"    ", unpadded(&district_name)].concat();
        self.insert(&tables.history, &keys::history(w, d, taken), &history.with(&data));
        self.commit().await
    }
}
