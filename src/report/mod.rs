//! Tables for people.

mod break_even;
mod table;

pub use break_even::{BreakEven, Point, break_even, break_even_lines, points};
pub use table::{Column, comparison_table};
