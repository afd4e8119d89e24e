//! The nine tables and two indexes, as tables of a store.

use polder::{Store, StoreError, Table};

/// Handles of all of them.
///
/// A batch latches leaves in the order in which their tables were made (`BATCH-1` of the tree). So
/// those whose few leaves everybody changes come last, and are held for the shortest time.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    pub(super) item: Table,
    pub(super) stock: Table,
    pub(super) customer: Table,
    pub(super) customer_by_name: Table,
    pub(super) order_by_customer: Table,
    pub(super) orders: Table,
    pub(super) order_line: Table,
    pub(super) history: Table,
    pub(super) new_order: Table,
    pub(super) district: Table,
    pub(super) warehouse: Table,
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
