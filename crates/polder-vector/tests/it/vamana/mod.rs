//! Tests of graphs that are steered by codes.

mod bad_input;
mod fields;
mod load;
mod searches;
mod sift;
