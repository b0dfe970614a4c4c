//! What one bench executable saw beside its times: pool sizes and skips, for the tools that read a run
//! afterwards.

use crate::case::BenchmarkId;
use crate::cuda::Device;
use crate::measure::Observation;
use crate::whole_file;
use serde::Serialize;
use std::io;
use std::path::Path;

/// The format's version.
const FORMAT: u32 = 1;

/// The record of one run of one bench executable.
#[derive(Clone, Debug, Serialize)]
pub struct RunRecord {
    format: u32,
    /// The executable's name.
    pub bench: &'static str,
    device: Option<String>,
    benchmarks: Vec<Measured>,
    skipped: Vec<Skipped>,
}

#[derive(Clone, Debug, Serialize)]
struct Measured {
    id: String,
    #[serde(flatten)]
    observation: Observation,
}

#[derive(Clone, Debug, Serialize)]
struct Skipped {
    id: String,
    reason: String,
}

impl RunRecord {
    /// An empty record.
    #[must_use]
    pub fn new(bench: &'static str, device: Option<&Device>) -> RunRecord {
        RunRecord {
            format: FORMAT,
            bench,
            device: device.map(ToString::to_string),
            benchmarks: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Whether no case ran, as with a filter that matches nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.benchmarks.is_empty() && self.skipped.is_empty()
    }

    /// Adds a case that was measured.
    pub fn add(&mut self, id: &BenchmarkId, observation: Observation) {
        self.benchmarks.push(Measured {
            id: id.to_string(),
            observation,
        });
    }

    /// Adds a case that was skipped.
    pub fn skip(&mut self, id: &BenchmarkId, reason: String) {
        self.skipped.push(Skipped {
            id: id.to_string(),
            reason,
        });
    }

    /// Writes the record as JSON, whole or not at all.
    ///
    /// # Errors
    ///
    /// The operating system's refusal.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        whole_file::write(path, &bytes)
    }
}
