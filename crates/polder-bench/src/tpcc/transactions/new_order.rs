//! New-order, clause 2.4: an order of five to fifteen items.

use super::super::data::rows::{DIST_BYTES, Item};
use super::*;

/// Lines of the longest order.
const MOST_LINES: usize = 15;

/// What the terminal sends.
pub(super) struct Input {
    w: u16,
    d: u8,
    c: u16,
    lines: [Line; MOST_LINES],
    count: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Line {
    item: u32,
    supply: u16,
    quantity: u8,
}

impl Line {
    fn is_of_same_stock(self, other: Line) -> bool {
        (self.item, self.supply) == (other.item, other.supply)
    }
}

impl Input {
    pub(super) fn draw(client: &mut Client<'_>, w: u16) -> Input {
        let (scale, warehouses) = (client.scale, client.warehouses);
        let random = &mut client.random;
        let d = district(random);
        let c = input::customer(random, scale);
        let count = within(random, 5, MOST_LINES as u64) as usize;
        let mut lines = [Line::default(); MOST_LINES];
        for line in &mut lines[..count] {
            let is_remote = percent(random, 1);
            *line = Line {
                item: input::item(random, scale),
                supply: if is_remote { other_warehouse(random, w, warehouses) } else { w },
                quantity: within(random, 1, 10) as u8,
            };
        }
        if percent(random, 1) {
            // The last item is none: the order is rolled back.
            lines[count - 1].item = scale.items + 1;
        }
        Input { w, d, c, lines, count }
    }

    fn lines(&self) -> &[Line] {
        &self.lines[..self.count]
    }
}

/// Another warehouse, if there is one.
pub(super) fn other_warehouse(random: &mut Random, w: u16, warehouses: u16) -> u16 {
    if warehouses < 2 {
        return w;
    }
    let other = within(random, 1, u64::from(warehouses) - 1) as u16;
    if other < w { other } else { other + 1 }
}

/// The price of an item, and whether it bears the mark.
fn price_of(bytes: &[u8]) -> Option<(u32, bool)> {
    let item = Row::<Item, _>::of(bytes)?;
    Some((item.price.get(), input::is_original(item.data())))
}

impl Client<'_> {
    pub(super) fn new_order(&mut self, input: &Input) -> Tried {
        let Input { w, d, c, .. } = *input;
        let Tables { warehouse, customer, orders, order_by_customer, new_order, .. } = self.tables;
        let tax = look(warehouse, &keys::warehouse(w), |row: &Warehouse| row.tax.get())?;
        let (district_tax, o) = self.take_order_number(w, d)?;
        let discount = look(customer, &keys::customer(w, d, c), |row: &Customer| {
            // The terminal shows them.
            std::hint::black_box((row.last, row.credit));
            row.discount.get()
        })?;
        let order = &mut self.rows.order;
        order.c_id.set(c);
        order.entry_d.set(input::now());
        order.carrier_id = 0;
        order.ol_cnt = input.count as u8;
        let is_local = input.lines().iter().all(|line| line.supply == w);
        order.all_local = is_local.into();
        self.changes.insert(orders, &keys::order(w, d, o), order.bytes());
        self.changes.insert(order_by_customer, &keys::order_by_customer(w, d, c, o), &[]);
        self.changes.insert(new_order, &keys::order(w, d, o), &[]);
        let Some(sum) = self.order_lines(input, o)? else { return Ok(Some(End::RolledBack)) };
        // Hundredths and ten-thousandths.
        let factor = f64::from(10_000 - discount) * f64::from(10_000 + tax + district_tax);
        std::hint::black_box(sum as f64 * factor / 1e8);
        self.commit()
    }

    /// The tax of the district, and the number of its next order.
    fn take_order_number(&mut self, w: u16, d: u8) -> Result<(u32, u32), BenchError> {
        let (table, key, row) =
            (&self.tables.district, keys::district(w, d), &mut self.rows.district);
        let version = read(table, &key, row)?;
        let number = row.next_o_id.get();
        if number >= keys::LAST_ORDER {
            let why = format!("warehouse {w}, district {d} has as many orders as it can have");
            return Err(BenchError::Options(why));
        }
        row.next_o_id.set(number + 1);
        self.changes.replace(table, &key, version, row.bytes());
        Ok((row.tax.get(), number))
    }

    /// Takes all items from stock. Gives the sum of their prices; none if there is no such item.
    fn order_lines(&mut self, input: &Input, o: u32) -> Result<Option<i64>, BenchError> {
        let Input { w, d, .. } = *input;
        let mut sum = 0;
        let mut dists = [([0; DIST_BYTES], false); MOST_LINES];
        let items = self.items(input.lines())?;
        for (index, line) in input.lines().iter().enumerate() {
            let item = match self.many {
                true => items[index],
                false => self.tables.item.get_with(keys::item(line.item), price_of)?.flatten(),
            };
            let Some((price, is_original)) = item else { return Ok(None) };
            let before = input.lines()[..index].iter().position(|b| b.is_of_same_stock(*line));
            dists[index] = match before {
                // The line before has taken what this one needs as well.
                Some(before) => dists[before],
                None => self.take_from_stock(&input.lines()[index..], w, d)?,
            };
            let (dist, is_original_stock) = dists[index];
            // Brand or generic, which the terminal shows.
            std::hint::black_box(is_original && is_original_stock);
            let amount = i64::from(line.quantity) * i64::from(price);
            sum += amount;
            let row = &mut self.rows.line;
            row.i_id.set(line.item);
            row.supply_w_id.set(line.supply);
            row.delivery_d.set(0);
            row.quantity = line.quantity;
            row.amount.set(amount);
            row.dist_info = dist;
            let key = keys::order_line(w, d, o, index as u8 + 1);
            self.changes.insert(&self.tables.order_line, &key, row.bytes());
        }
        Ok(Some(sum))
    }

    /// What the lines say of their items, where those are looked up together; and has the stocks brought
    /// into memory, which are read after that one by one, with their versions.
    fn items(&mut self, lines: &[Line]) -> Result<[Option<(u32, bool)>; MOST_LINES], BenchError> {
        let mut items = [None; MOST_LINES];
        if self.many {
            let Client { tables, wanted, .. } = self;
            wanted.clear();
            wanted.extend(lines.iter().map(|line| keys::item(line.item)));
            tables.item.get_many(wanted, |at, bytes| items[at] = bytes.and_then(price_of))?;
            wanted.clear();
            wanted.extend(lines.iter().map(|line| keys::stock(line.supply, line.item)));
            tables.stock.contains_many(wanted, |_, _| ())?;
        }
        Ok(items)
    }

    /// Takes what the first of these lines needs, and all others of the same stock with it. Gives
    /// what the district's lines say of it, and whether it bears the mark.
    fn take_from_stock(
        &mut self,
        lines: &[Line],
        w: u16,
        d: u8,
    ) -> Result<([u8; DIST_BYTES], bool), BenchError> {
        let first = lines[0];
        let (table, row) = (&self.tables.stock, &mut self.rows.stock);
        let key = keys::stock(first.supply, first.item);
        let version = read(table, &key, row)?;
        for line in lines.iter().filter(|line| line.is_of_same_stock(first)) {
            let left = row.quantity.get() - i16::from(line.quantity);
            row.quantity.set(if left >= 10 { left } else { left + 91 });
            row.ytd += u32::from(line.quantity);
            row.order_cnt += 1;
            row.remote_cnt += u32::from(line.supply != w);
        }
        self.changes.replace(table, &key, version, row.bytes());
        Ok((row.dist_of(d), input::is_original(row.data())))
    }
}
