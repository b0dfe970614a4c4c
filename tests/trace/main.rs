//! Trace readers, the summary and the generator, from outside.

mod bad_input;
mod broken_json;
mod csv_logs;
mod files;
mod nsys;
mod profiler;
mod properties;
mod snapshot;
mod summary;
mod support;
mod synthetic;
mod windows;
