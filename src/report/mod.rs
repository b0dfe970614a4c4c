//! Tables for people.

mod table;

pub use table::{Column, comparison_table};
