//! What was measured on both sides, with the differences marked.

use super::format::foreign;
use super::view::{SideView, View};
use crate::baseline::{DifferenceKind, Settings};
use crate::counted::counted;
use crate::environment::Environment;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Facts by name, in the order of the page. `None`: the input does not say.
type Facts = Vec<(&'static str, Option<String>)>;

/// One fact on either side.
struct Row<'a> {
    what: &'static str,
    base: Option<&'a str>,
    /// `None` without a new side.
    new: Option<Option<&'a str>>,
}

impl Row<'_> {
    fn differs(&self) -> bool {
        self.new.is_some_and(|new| new != self.base)
    }
}

pub(super) fn section(view: &View) -> Markup {
    let base = facts(&view.base);
    let new = view.new.as_ref().map(facts);
    let treatments: BTreeMap<&str, DifferenceKind> = view
        .compared
        .iter()
        .flat_map(|compared| &compared.differences)
        .map(|difference| (difference.what, difference.kind))
        .collect();
    let differing = new
        .as_ref()
        .map(|new| base.iter().zip(new).filter(|(base, new)| base.1 != new.1).count());
    let mut rows: Vec<Row> = base
        .iter()
        .enumerate()
        .map(|(index, (what, value))| Row {
            what,
            base: value.as_deref(),
            new: new
                .as_ref()
                .map(|new| new.get(index).and_then(|(_, value)| value.as_deref())),
        })
        .collect();
    rows.sort_by_key(|row| !row.differs());
    html! {
        h2 #measured { "What was measured" }
        @if let Some(differing) = differing {
            p.note { (counted(differing, "difference")) ", marked " b { "≠" } "; what is judged is marked as the treatment." }
        }
        div.scroll tabindex="0" role="region" aria-label="What was measured" {
            table.facts {
                thead { tr { th scope="col" { "Fact" } th scope="col" { @if new.is_some() { "Base" } @else { "Value" } } @if new.is_some() { th scope="col" { "New" } } } }
                tbody {
                    @for row in rows {
                        @let differs = row.differs();
                        tr class=[differs.then_some("differs")] {
                            th scope="row" {
                                @if differs { "≠ " } (row.what)
                                @match treatments.get(row.what) {
                                    Some(DifferenceKind::Treatment) => span.treatment { " (treatment)" },
                                    Some(DifferenceKind::Refused) => span.treatment { " (does not compare)" },
                                    _ => {}
                                }
                            }
                            td.text { (shown(row.base)) }
                            @if let Some(new) = row.new { td.text { (shown(new)) } }
                        }
                    }
                }
            }
        }
    }
}

fn shown(value: Option<&str>) -> Markup {
    match value {
        Some(value) if !value.is_empty() => foreign(value),
        _ => super::format::undefined("the recording does not say"),
    }
}

fn facts(side: &SideView) -> Facts {
    let summary = side.summary;
    let mut facts: Facts = vec![
        ("name", Some(summary.name.clone())),
        ("recorded", summary.created.clone()),
        (
            "launches",
            Some(format!(
                "{} in {}",
                summary.launches,
                counted(summary.sessions, "session")
            )),
        ),
        ("benchmarks", Some(summary.benchmarks.to_string())),
        (
            "host-bound benchmarks",
            summary.host_bound.map(|count| count.to_string()),
        ),
    ];
    environment_facts(&mut facts, summary.environment.as_ref());
    settings_facts(&mut facts, summary.settings.as_ref());
    facts
}

fn on_off(on: bool) -> String {
    String::from(if on { "on" } else { "off" })
}

fn environment_facts(facts: &mut Facts, environment: Option<&Environment>) {
    let device = environment.map(|environment| &environment.device);
    let gpu = environment.and_then(|environment| environment.gpu.as_ref());
    let host = environment.map(|environment| &environment.host);
    let build = environment.map(|environment| &environment.build);
    let toolkit = environment.map(|environment| &environment.toolkit);
    let pool = environment.and_then(|environment| environment.pool.as_ref());
    let clock = |now: Option<u32>, most: Option<u32>| {
        let most = most?;
        Some(now.map_or_else(
            || format!("{most} MHz"),
            |now| format!("{most} MHz ({now} MHz when it began)"),
        ))
    };
    facts.extend([
        ("device", device.map(|device| device.name.clone())),
        ("driver", device.and_then(|device| device.driver_version.clone())),
        ("CUDA version", device.map(|device| device.cuda_version.clone())),
        ("kernel driver", gpu.and_then(|gpu| gpu.kernel_driver_version.clone())),
        (
            "compute capability",
            device.and_then(|device| device.compute_capability.clone()),
        ),
        ("device UUID", device.and_then(|device| device.uuid.clone())),
        (
            "device memory",
            device
                .and_then(|device| device.memory_bytes)
                .map(|bytes| gibibytes(bytes as u64)),
        ),
        (
            "highest SM clock",
            gpu.and_then(|gpu| clock(gpu.sm_clock_mhz, gpu.sm_clock_max_mhz)),
        ),
        (
            "highest memory clock",
            gpu.and_then(|gpu| clock(None, gpu.memory_clock_max_mhz)),
        ),
        (
            "power limit",
            gpu.and_then(|gpu| gpu.power_limit_w).map(|watts| format!("{watts} W")),
        ),
        ("ECC", gpu.and_then(|gpu| gpu.ecc_enabled).map(on_off)),
        ("MIG", gpu.and_then(|gpu| gpu.mig_enabled).map(on_off)),
        ("persistence mode", gpu.and_then(|gpu| gpu.persistence_mode).map(on_off)),
        ("operating system", host.and_then(|host| host.os.clone())),
        ("kernel", host.and_then(|host| host.kernel.clone())),
        ("processor", host.and_then(|host| host.cpu.clone())),
        (
            "processors",
            host.and_then(|host| host.cores).map(|cores| cores.to_string()),
        ),
        (
            "virtualised",
            host.and_then(|host| host.virtualised)
                .map(|yes| String::from(if yes { "yes" } else { "no" })),
        ),
        ("poolbench", build.map(|build| build.version.clone())),
        ("commit", build.and_then(|build| build.commit.clone())),
        ("rustc", build.and_then(|build| build.rustc.clone())),
        ("build profile", build.map(|build| build.profile.clone())),
        ("kernels from", toolkit.map(|toolkit| toolkit.ptx_origin.clone())),
        (
            "default release threshold",
            pool.map(|pool| super::format::bytes(pool.release_threshold_bytes)),
        ),
    ]);
}

fn settings_facts(facts: &mut Facts, settings: Option<&Settings>) {
    let seconds = |value: f64| format!("{value} s");
    let or_none = |value: Option<String>| value.unwrap_or_else(|| String::from("none"));
    facts.extend([
        (
            "injected fault",
            settings.map(|settings| or_none(settings.injected_fault.clone())),
        ),
        ("warm-up", settings.map(|settings| seconds(settings.warm_up_time_s))),
        (
            "measurement time",
            settings.map(|settings| seconds(settings.measurement_time_s)),
        ),
        (
            "samples a launch",
            settings.map(|settings| settings.sample_size.to_string()),
        ),
        (
            "turns a benchmark",
            settings.map(|settings| settings.turns.max(1).to_string()),
        ),
        ("filter", settings.map(|settings| or_none(settings.filter.clone()))),
        (
            "pinned processor",
            settings.map(|settings| or_none(settings.pinned_processor.map(|processor| processor.to_string()))),
        ),
        ("host-speed probes", settings.map(|settings| on_off(settings.probes))),
        (
            "repeated measurements",
            settings.map(|settings| settings.repeated.to_string()),
        ),
    ]);
}

#[allow(clippy::cast_precision_loss, reason = "for display")]
fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}
