//! The nine tables and two indexes, as tables of a store.

use polder::{Store, StoreError, Table};

/// Handles of all of them.
///
/// A batch latches leaves in the order in which their tables were made (`BATCH-1` of the tree). So
/// those whose few leaves everybody changes come last, and are held for the shortest time.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(crate) item: Table,
    pub(crate) stock: Table,
    pub(crate) customer: Table,
    pub(crate) customer_by_name: Table,
    pub(crate) order_by_customer: Table,
    pub(crate) orders: Table,
    pub(crate) order_line: Table,
    pub(crate) history: Table,
    pub(crate) new_order: Table,
    pub(crate) district: Table,
    pub(crate) warehouse: Table,
}

impl Tables {
    /// Opens them, or makes those that are not there.
    pub(crate) fn open(store: &Store) -> Result<Tables, StoreError> {
        Ok(Tables {
            item: store.open_table("item")?,
            stock: store.open_table("stock")?,
            customer: store.open_table("customer")?,
            customer_by_name: store.open_table("customer_by_name")?,
            order_by_customer: store.open_table("order_by_customer")?,
            orders: store.open_table("orders")?,
            order_line: store.open_table("order_line")?,
            history: store.open_table("history")?,
            new_order: store.open_table("new_order")?,
            district: store.open_table("district")?,
            warehouse: store.open_table("warehouse")?,
        })
    }
}
