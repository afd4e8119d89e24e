//! New-order, clause 2.4: an order of five to fifteen items.

use std::hint::black_box;

use super::*;

/// What the terminal asks for in a line.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    item: u32,
    supply: u16,
    quantity: u8,
}

impl Wanted {
    fn is_of_same_stock(&self, other: &Wanted) -> bool {
        (self.item, self.supply) == (other.item, other.supply)
    }
}

impl<const AWAITS: bool> Client<'_, AWAITS> {
    pub(super) async fn new_order(&mut self, w: u16) -> Tried {
        let (tables, d) = (self.tables, input::district(&mut self.random));
        let c = input::customer(&mut self.random, self.scale);
        let lines = self.draw_lines(w);
        let key = keys::warehouse(w);
        let tax = self.look(&tables.warehouse, &key, |row: &Warehouse| row.tax.get()).await?;
        let next = |row: &mut District| {
            row.next_o_id += 1;
            (row.tax.get(), row.next_o_id.get() - 1)
        };
        let (district_tax, o) = self.change(&tables.district, &keys::district(w, d), next).await?;
        if o >= keys::LAST_ORDER {
            let why = format!("warehouse {w}, district {d} has as many orders as it can have");
            return Err(BenchError::Options(why));
        }
        let key = keys::customer(w, d, c);
        let show = |row: &Customer| {
            // The terminal shows them.
            black_box((row.last, row.credit));
            row.discount.get()
        };
        let discount = self.look(&tables.customer, &key, show).await?;
        let order = Order {
            c_id: c.into(),
            entry_d: input::now().into(),
            carrier_id: 0,
            ol_cnt: lines.len() as u8,
            all_local: lines.iter().all(|line| line.supply == w).into(),
        };
        self.insert(&tables.orders, &keys::order(w, d, o), order.as_bytes());
        self.insert(&tables.order_by_customer, &keys::order_by_customer(w, d, c, o), &[]);
        self.insert(&tables.new_order, &keys::order(w, d, o), &[]);
        let Some(sum) = self.order_lines(w, d, o, &lines).await? else {
            self.rolled_back += 1;
            return Ok(true);
        };
        // Hundredths and ten-thousandths.
        let factor = f64::from(10_000 - discount) * f64::from(10_000 + tax + district_tax);
        black_box(sum as f64 * factor / 1e8);
        self.commit().await
    }

    fn draw_lines(&mut self, w: u16) -> Vec<Wanted> {
        let count = within(&mut self.random, 5, 15);
        let draw = |_| {
            let is_remote = percent(&mut self.random, 1);
            let item = input::item(&mut self.random, self.scale);
            let supply = if is_remote { self.draw_other_warehouse(w) } else { w };
            Wanted { item, supply, quantity: within(&mut self.random, 1, 10) as u8 }
        };
        let mut lines: Vec<Wanted> = (0..count).map(draw).collect();
        if let (true, Some(last)) = (percent(&mut self.random, 1), lines.last_mut()) {
            // It is none: the order is rolled back.
            last.item = self.scale.items + 1;
        }
        lines
    }

    /// Takes all items from stock. Gives the sum of their prices; `None` if there is no such item.
    async fn order_lines(
        &mut self,
        w: u16,
        d: u8,
        o: u32,
        lines: &[Wanted],
    ) -> Result<Option<i64>, BenchError> {
        let (tables, mut sum) = (self.tables, 0);
        self.look_ahead(&tables.item, lines.iter().map(|line| keys::item(line.item)))?;
        let stocks = lines.iter().map(|line| keys::stock(line.supply, line.item));
        self.look_ahead(&tables.stock, stocks)?;
        let mut stocks = Vec::with_capacity(lines.len());
        for (line, number) in lines.iter().zip(1u8..) {
            let price = |row: &Item, data: &[u8]| (row.price.get(), input::is_original(data));
            let item = self.find(&tables.item, &keys::item(line.item), price).await?;
            let Some((price, is_original)) = item else { return Ok(None) };
            let (before, rest) = lines.split_at(stocks.len());
            let stock = match before.iter().position(|other| other.is_of_same_stock(line)) {
                // The line before has taken what this one needs as well.
                Some(before) => stocks[before],
                None => self.take_from_stock(w, d, rest).await?,
            };
            stocks.push(stock);
            let (dist_info, is_original_stock) = stock;
            // Brand or generic, which the terminal shows.
            black_box(is_original && is_original_stock);
            let amount = i64::from(line.quantity) * i64::from(price);
            sum += amount;
            let row = OrderLine {
                i_id: line.item.into(),
                supply_w_id: line.supply.into(),
                delivery_d: 0.into(),
                quantity: line.quantity,
                amount: amount.into(),
                dist_info,
            };
            self.insert(&tables.order_line, &keys::order_line(w, d, o, number), row.as_bytes());
        }
        Ok(Some(sum))
    }

    /// Takes what the first of these lines needs, and all others of the same stock with it. Gives
    /// what the district's lines say of it, and whether it bears the mark.
    async fn take_from_stock(
        &mut self,
        w: u16,
        d: u8,
        lines: &[Wanted],
    ) -> Result<([u8; DIST_BYTES], bool), BenchError> {
        let Wanted { item, supply, .. } = lines[0];
        let take = |row: &mut Stock| {
            for line in lines.iter().filter(|line| line.is_of_same_stock(&lines[0])) {
                let left = row.quantity.get() - i16::from(line.quantity);
                row.quantity.set(if left >= 10 { left } else { left + 91 });
                row.ytd += u32::from(line.quantity);
                row.order_cnt += 1;
                row.remote_cnt += u32::from(line.supply != w);
            }
            row.dist[usize::from(d) - 1]
        };
        let key = keys::stock(supply, item);
        let dist_info = self.change(&self.tables.stock, &key, take).await?;
        let is_original = Stock::of(&self.row).is_some_and(|(_, data)| input::is_original(data));
        Ok((dist_info, is_original))
    }
}
