//! Baselines whose texts mean harm.

use crate::synthetic_baseline::Recording;
use poolbench::baseline::{Baseline, Skipped};
use std::collections::BTreeMap;

/// Text that would be markup, turn the direction of writing, break lines, or widen the page.
pub fn hostile_texts() -> [String; 6] {
    [
        String::from("<script>window.planted = true</script>"),
        String::from("\"'><img src=x onerror=window.planted=1>"),
        String::from("\u{202e}\u{2066}desrever\u{200f}"),
        String::from("\u{0}\u{1b}[31mred\u{1b}[0m\n\r\t"),
        "w".repeat(300),
        String::from("</style></title></textarea><!--"),
    ]
}

/// The baseline with hostile texts as ids, names and reasons.
pub fn hostile(recording: &Recording) -> Baseline {
    let mut baseline = recording.baseline();
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    for (number, (text, id)) in hostile_texts()
        .iter()
        .cycle()
        .take(12)
        .zip(&baseline.manifest.benchmarks)
        .enumerate()
    {
        let hostile = match number {
            // As an id without places, and as each part of one with them.
            0..6 => text.clone(),
            6 | 7 => format!("{text}/hoisted/4KiB").replace("</", "<"),
            8 | 9 => format!("scratch_loop/{}/4KiB", text.replace('/', "")),
            _ => format!("scratch_loop/hoisted/{}", text.replace('/', "")),
        };
        renamed.insert(id.clone(), hostile);
    }
    let rename = |id: &String| renamed.get(id).unwrap_or(id).clone();
    for launch in &mut baseline.launches {
        launch.samples = std::mem::take(&mut launch.samples)
            .into_iter()
            .map(|(id, samples)| (rename(&id), samples))
            .collect();
    }
    let manifest = &mut baseline.manifest;
    for ids in [&mut manifest.benchmarks, &mut manifest.host_bound] {
        *ids = ids.iter().map(rename).collect();
        ids.sort();
    }
    let texts = hostile_texts();
    manifest.environment.device.name = texts.concat();
    manifest.environment.host.os = Some(texts[2].clone());
    manifest.environment.host.cpu = Some(texts[4].clone());
    manifest.settings.filter = Some(texts[1].clone());
    manifest.settings.injected_fault = Some(texts[0].clone());
    manifest.skipped = texts
        .iter()
        .map(|text| Skipped {
            id: format!("skipped/{text}"),
            reason: text.clone(),
        })
        .collect();
    baseline
}
