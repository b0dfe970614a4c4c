//! Recorded results: Criterion's own files.

pub mod criterion_home;
