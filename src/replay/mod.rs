//! Replays a program's own allocation trace under every strategy and threshold, and recommends one.
//!
//! A trace is compiled once into a flat array of operations ([`Program`]); the timed loop ([`Engine`]) only
//! walks it and makes the driver's calls. [`replay`](fn@replay) runs all combinations in turn, [`Touch`] proves
//! that what they hand out is right.

mod advice;
mod compile;
mod dump;
mod engine;
mod operation;
mod program;
mod report;
mod rounds;
mod session;
mod stream_order;
mod text;
mod threshold;
mod touch;
mod words;

pub use advice::{Advice, Alternative, Candidate, Difference, Verdict, advise};
pub use engine::{Allocator, Engine, NoWork, Work};
pub use operation::{Operation, OperationKind};
pub use program::{CompileError, CompileOptions, Counts, Program, Reuse, STREAMS_MAX, Synchronise};
pub use report::{AdviceReport, AlternativeReport, CombinationReport, PerEvent, Report, SkippedReport, Subject};
pub use rounds::{REPLAY_TIME_MAX, replay};
pub use session::{Combination, Measured, Replayed, SessionError, Settings, Skipped, SlowestCall};
pub use text::text;
pub use threshold::{InvalidReplayThreshold, ReplayThreshold};
pub use touch::{Touch, Touched};
