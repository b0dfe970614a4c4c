//! Tables for people, and the same for programs.

mod api_summary;
mod ascii_json;
mod break_even;
mod calibration;
mod call_times;
mod commands;
mod comparison;
mod html;
mod inventory;
mod printable;
mod prose;
mod readme;
mod replay;
mod table;
mod timings;

pub use api_summary::{api_summary_json, api_summary_table};
pub use ascii_json::ascii_json;
pub use break_even::{BreakEven, Point, break_even, break_even_lines, points};
pub use calibration::{CalibrationReport, TooFewLaunches, calibration_json, calibration_text};
pub use call_times::call_times_table;
pub use commands::with_name_of;
pub use comparison::{
    COMMENT_BYTES_MAX, CompareRequest, Compared, Conclusion, Incomparable, Note, SideSummary, Which, class_name,
    comparison_json, comparison_markdown, comparison_text, verdict_name, verdict_reason,
};
pub use html::HtmlReport;
pub use inventory::{inventory_json, inventory_text};
pub use printable::{OneLine, Printable};
pub use readme::{NoReadmeTables, readme_tables};
pub use replay::REPLAY_COLUMNS;
pub use table::{Column, FRAGMENTATION, comparison_table};
