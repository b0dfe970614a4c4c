//! Statistics of comparisons: samples in, estimates and verdicts out.
//!
//! Pure: knows nothing of CUDA, of files or of formats. The unit is the **launch**: samples of one
//! process are not independent. [`compare`] reduces every launch of every benchmark to one value,
//! takes the host's speed out of it, tests the fast half of the launches by ranks, and says what
//! that proves about the whole suite at once. `reference/procedure.md` defines the steps; where the
//! code departs from it, the place says why.

mod adjustment;
mod aligned;
mod benchmark_id;
mod bootstrap;
mod calibration;
mod common_shift;
mod comparison;
mod doubts;
mod effect;
mod finding;
mod in_process;
mod judging;
mod launch_levels;
mod launch_spread;
mod launch_table;
mod matched;
mod median;
mod multiple_testing;
mod noisy_host;
mod null_distribution;
mod options;
mod order;
mod rank_test;
mod sample;
mod session_deviations;
mod session_error;
mod session_outlook;
mod session_weights;
mod sessions;
mod side;
mod verdict;
mod warning;
mod weather;

pub use adjustment::ProbeSlope;
pub use benchmark_id::{Axis, AxisLabel, BenchmarkId};
pub use bootstrap::{BootstrapEstimate, bootstrap, quantile_of_sorted};
pub use calibration::{
    BenchmarkCalibration, Calibration, CalibrationPlan, PowerEstimate, PowerPlan, Proportion, calibrate, estimate_power,
};
pub use common_shift::{CommonShift, Correction, GroupShift};
pub use comparison::{BenchmarkComparison, Comparison, Measured, Summary, compare, session_spread};
pub use effect::{Effect, Interval};
pub use finding::{Direction, Finding, Renaming};
pub use in_process::{ProcessTime, in_process_effect};
pub use matched::{Class, SessionLayout};
pub use median::Median;
pub use multiple_testing::q_values;
pub use noisy_host::SlowShare;
pub use null_distribution::{NullDistribution, NullDistributions, Scores, launches_beside, minimum_launches};
pub use options::{InvalidOptions, Options, SessionSpread};
pub use rank_test::{Bounds, INTERVAL_LAUNCHES, Inversion, RankTest};
pub use sample::{InvalidSample, Sample};
pub use side::{Benchmark, InvalidBenchmark, Launch, LaunchKey, RawLaunch, RawProbe, SessionId, Side, SkipReason};
pub use verdict::{Inconclusive, Verdict};
pub use warning::Warning;
