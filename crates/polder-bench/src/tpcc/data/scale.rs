//! How many rows there are of each kind.

use serde::Deserialize;

use super::keys::DISTRICTS;

/// The cardinalities of clause 1.2.1; smaller ones are for tests.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(from = "Named")]
pub(crate) struct Scale {
    pub(crate) items: u32,
    pub(crate) customers_per_district: u16,
    /// Orders that a district begins with, of which the last [`Scale::undelivered`] are open. There
    /// are as many as customers, one of each.
    pub(crate) undelivered: u32,
    /// Different last names.
    pub(crate) last_names: u64,
}

/// The scales that a file can name.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Named {
    Full,
    Tiny,
}

impl From<Named> for Scale {
    fn from(named: Named) -> Scale {
        match named {
            Named::Full => Scale::FULL,
            Named::Tiny => Scale::TINY,
        }
    }
}

impl Scale {
    /// That of the specification.
    pub(crate) const FULL: Scale =
        Scale { items: 100_000, customers_per_district: 3000, undelivered: 900, last_names: 1000 };

    /// As little as all transactions can work on: for what only shows that all works.
    pub(crate) const TINY: Scale =
        Scale { items: 200, customers_per_district: 30, undelivered: 9, last_names: 10 };

    /// Orders that a district begins with.
    pub(crate) fn orders_per_district(self) -> u32 {
        u32::from(self.customers_per_district)
    }

    /// Rows of all tables behind a load, without the secondary indexes; order lines come in at ten
    /// for each order.
    pub(crate) fn rows(self, warehouses: u16) -> u64 {
        let orders = u64::from(self.orders_per_district());
        let customers = u64::from(self.customers_per_district);
        let of_district = 1 + 2 * customers + 11 * orders + u64::from(self.undelivered);
        let of_warehouse = 1 + u64::from(DISTRICTS) * of_district + u64::from(self.items);
        u64::from(self.items) + u64::from(warehouses) * of_warehouse
    }
}
