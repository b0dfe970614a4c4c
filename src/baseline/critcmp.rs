//! What `critcmp --export` writes: Criterion's estimates of one baseline, without the samples.

use super::input::{Input, InputKind};
use super::read::{check_id, read_file_or_pipe};
use super::resolve::InputError;
use super::unique;
use crate::stats::{BenchmarkId, ProcessTime, Sample, Side};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Exports of large suites take a few MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[derive(Deserialize)]
struct Export {
    name: String,
    // Read one by one: an entry that another version wrote must not spoil the others.
    #[serde(deserialize_with = "unique::map")]
    benchmarks: BTreeMap<String, Value>,
}

/// Reads an export; `name` is the baseline that it must hold.
pub(super) fn read(text: &str, path: &Path, name: Option<&str>) -> Result<Input, InputError> {
    let bytes = read_file_or_pipe(path, FILE_BYTES_MAX)?;
    let no_export = |reason: String| InputError::NoExport {
        path: path.to_owned(),
        reason,
    };
    let export: Export = serde_json::from_slice(&bytes).map_err(|error| no_export(error.to_string()))?;
    if let Some(asked) = name.filter(|asked| *asked != export.name) {
        return Err(InputError::ExportName {
            path: path.to_owned(),
            asked: asked.to_owned(),
            found: export.name,
        });
    }
    if export.benchmarks.is_empty() {
        return Err(no_export(String::from("it holds no benchmark")));
    }
    let mut input = Input {
        name: text.to_owned(),
        kind: InputKind::CritcmpExport,
        manifest: None,
        side: Side::new(),
        process_times: BTreeMap::new(),
        left_out: Vec::new(),
        stale: 0,
    };
    let count = export.benchmarks.len();
    for (id, entry) in export.benchmarks {
        match check_id(&id).and_then(|()| process_time(&entry)) {
            Ok(time) => {
                let id = BenchmarkId::new(id);
                input.add(&id, &[1.0], &[time.median_ns]);
                input.process_times.insert(id, time);
            }
            Err(reason) => input.leave_out(id, reason),
        }
    }
    input.usable(count)
}

/// The median with its interval; where there is none, the mean, as critcmp itself takes.
fn process_time(entry: &Value) -> Result<ProcessTime, String> {
    let estimates = &entry["criterion_estimates_v1"];
    // Exports of old versions spell the names with capitals.
    let estimate = ["median", "Median", "mean", "Mean"]
        .into_iter()
        .map(|name| &estimates[name])
        .find(|estimate| estimate["point_estimate"].is_number())
        .ok_or_else(|| String::from("it has neither a median nor a mean"))?;
    let number = |value: &Value| value.as_f64().filter(|number| number.is_finite());
    let median_ns = number(&estimate["point_estimate"]).unwrap_or(f64::NAN);
    Sample::new(vec![median_ns]).map_err(|error| error.to_string())?;
    let interval = &estimate["confidence_interval"];
    // Other levels are not scaled: how the interval was made is not known.
    let is_95 = number(&interval["confidence_level"]).is_some_and(|level| (level - 0.95).abs() < 1e-9);
    Ok(ProcessTime {
        median_ns,
        interval_ns: number(&interval["lower_bound"])
            .zip(number(&interval["upper_bound"]))
            .filter(|_| is_95),
    })
}
