//! Tables for people, and the same for programs.

mod api_summary;
mod break_even;
mod call_times;
mod comparison;
mod html;
mod note;
mod printable;
mod replay;
mod table;
mod timings;

pub use api_summary::{api_summary_json, api_summary_table};
pub use break_even::{BreakEven, Point, break_even, break_even_lines, points};
pub use call_times::call_times_table;
pub use comparison::{CompareRequest, Compared, Conclusion, Incomparable, SideSummary};
pub use html::HtmlReport;
pub use note::{Note, Which};
pub use printable::Printable;
pub use replay::REPLAY_COLUMNS;
pub use table::{Column, comparison_table};
pub use timings::{Group, LaunchTime, Place, Timing, Timings};
