//! TPC-C on the public interface of Polder: tables, transactions, and what must hold of them.
//!
//! The nine tables and the five transactions are those of the specification (revision 5.11), with
//! their reads, range scans and deletes. Terminals do not think and do not type: each thread begins
//! a transaction when its last has ended. What the specification leaves to the implementation:
//!
//! * A transaction is its reads and one batch (`Store::apply`), which expects the version of every
//!   row that it changes to be the one that it read. If another transaction was faster, it begins
//!   again with the same input. Order-status and stock-level write nothing and have no batch.
//! * Rows that only tell what never changes (a tax, a price, a discount, a name) are not expected.
//! * A delivery does all districts of its warehouse in one batch.
//!
//! What keeps the consistency conditions of clause 3.3.2, which [`check`] looks at:
//!
//! * Condition 1, that a warehouse and its districts have taken the same: a payment expects the
//!   warehouse and the district whose sums it raises.
//! * Conditions 2 and 3, that orders are numbered without a gap, and undelivered ones are the last:
//!   a new order expects the district from which it takes its number. A delivery expects the oldest
//!   undelivered order, and removes it: none older can come, since numbers only rise, and of two
//!   deliveries that see the same one only one goes through.
//! * Condition 4, that an order has as many lines as it says: the order and its lines are in one
//!   batch, and nothing ever removes either.
//!
//! A reader that sees one part of a batch and looks for another finds it, because all leaves of a
//! batch are latched before the first is changed. Order-status counts on that.

mod check;
mod data;
mod load;
mod mix;
mod report;
mod run;
mod tally;
#[cfg(test)]
mod tests;
mod transactions;

pub(crate) use check::check;
pub(crate) use data::{Scale, Tables};
pub(crate) use load::load;
pub(crate) use mix::Mix;
pub(crate) use report::{TpccResult, TpccSummary};
pub(crate) use run::{Run, interval};
pub(crate) use tally::Tally;

/// What a run of TPC-C needs to know beside the plan of every workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args, serde::Serialize, serde::Deserialize)]
pub(crate) struct TpccPlan {
    /// Warehouses of TPC-C, about 120 MB each.
    #[arg(long, value_name = "COUNT", default_value = "10",
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) warehouses: u16,
    /// Each thread of TPC-C keeps to home warehouses of its own, which it shares with none if there
    /// are enough; else each transaction has its home in any.
    #[arg(long)]
    pub(crate) affinity: bool,
    /// Transactions of TPC-C: standard (45% new-order, 43% payment, 4% each of order-status,
    /// delivery and stock-level), or percentages of new-order and stock-level alone, as in 20:80.
    #[arg(long, value_name = "MIX", default_value = "standard")]
    pub(crate) mix: Mix,
    /// Do not look at the consistency conditions of TPC-C behind each round.
    #[arg(id = "no-check", long = "no-check", action = clap::ArgAction::SetFalse)]
    pub(crate) check: bool,
}
