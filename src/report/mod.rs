//! Tables for people, and the same for programs.

mod api_summary;
mod break_even;
mod call_times;
mod replay;
mod table;

pub use api_summary::{api_summary_json, api_summary_table};
pub use break_even::{BreakEven, Point, break_even, break_even_lines, points};
pub use call_times::call_times_table;
pub use replay::REPLAY_COLUMNS;
pub use table::{Column, FRAGMENTATION, comparison_table};
