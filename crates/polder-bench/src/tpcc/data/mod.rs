//! What TPC-C works on: how many rows there are, their keys and columns, the tables that hold them,
//! and the random values of the specification.

pub(super) mod input;
pub(super) mod keys;
pub(super) mod rows;
mod scale;
mod tables;

pub(crate) use scale::Scale;
pub(crate) use tables::Tables;
