//! The nine tables and two indexes, as tables of a store.

use polder::{Store, StoreError, Table};

/// A handle of each of these tables, under its name.
macro_rules! tables {
    ($($name:ident),*) => {
        /// Handles of all of them.
        #[derive(Debug, Clone)]
        pub(crate) struct Tables {
            $(pub(crate) $name: Table,)*
        }

        impl Tables {
            /// Opens them, or makes those that are not there.
            pub(crate) fn open(store: &Store) -> Result<Tables, StoreError> {
                Ok(Tables { $($name: store.open_table(stringify!($name))?,)* })
            }
        }
    };
}

// A batch latches leaves in the order in which their tables were made (`BATCH-1` of the tree). So
// those whose few leaves everybody changes come last, and are held for the shortest time.
tables!(
    item,
    stock,
    customer,
    customer_by_name,
    order_by_customer,
    orders,
    order_line,
    history,
    new_order,
    district,
    warehouse
);
