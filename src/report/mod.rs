//! Tables for people.

mod replay;
mod table;

pub use replay::REPLAY_COLUMNS;
pub use table::{Column, comparison_table};
