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

/// Written before UTF-8 text by some editors.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What cargo-criterion writes with `--message-format=json`: one of these a line.
#[derive(Deserialize)]
struct Message {
    #[serde(rename = "reason")]
    _reason: String,
}

/// What the bytes are instead of an export, and what to do about it.
fn other_kind(bytes: &[u8]) -> Option<&'static str> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Some("it is empty; write it with `critcmp --export NAME > FILE`");
    }
    if bytes.starts_with(b"\x1f\x8b") {
        return Some("it is gzip-compressed; decompress it first");
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Some("it is UTF-16 text, as PowerShell's > writes; save it as UTF-8");
    }
    let first = serde_json::Deserializer::from_slice(bytes)
        .into_iter::<Message>()
        .next();
    first.and_then(Result::ok).map(|_| {
        "it holds messages of cargo-criterion; run the benchmarks with `cargo bench`, and give Criterion's folder as \
         target/criterion@NAME"
    })
}

/// Reads an export; `name` is the baseline that it must hold.
pub(super) fn read(text: &str, path: &Path, name: Option<&str>) -> Result<Input, InputError> {
    let file = read_file_or_pipe(path, FILE_BYTES_MAX)?;
    let bytes = file.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&file);
    let no_export = |reason: String| InputError::NoExport {
        path: path.to_owned(),
        reason,
    };
    if let Some(reason) = other_kind(bytes) {
        return Err(no_export(reason.to_owned()));
    }
    let export: Export = serde_json::from_slice(bytes)
        .map_err(|error| no_export(format!("{error}; write one with `critcmp --export NAME > FILE`")))?;
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
        match check_id(&id).and_then(|()| process_time(&entry["criterion_estimates_v1"])) {
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

/// The median of Criterion's estimates with its interval; where there is none, the mean, as critcmp itself takes.
pub(super) fn process_time(estimates: &Value) -> Result<ProcessTime, String> {
    // Criterion before 0.3.3 spells the names with capitals.
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
