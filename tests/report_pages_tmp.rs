#[path = "common/synthetic_baseline.rs"]
mod synthetic_baseline;
use poolbench::baseline::{Existing, Input};
use poolbench::report::{CompareRequest, Compared, HtmlReport, SideSummary};
use poolbench::stats::{CalibrationPlan, Options, calibrate};
use std::time::Instant;
use synthetic_baseline::Recording;

#[test]
fn pages() {
    let folder = std::path::Path::new("/tmp/h-report-pages");
    std::fs::create_dir_all(folder).unwrap();
    for recording in [Recording::base(), Recording::slower_stream_ordered()] {
        let mut baseline = recording.baseline();
        baseline.write(folder, &recording.name.parse().unwrap(), Existing::Replace).unwrap();
    }
    let start = Instant::now();
    let read = |r: Recording| Input::named(folder.join(r.name).to_str().unwrap(), folder).unwrap();
    let (base, new) = (read(Recording::base()), read(Recording::slower_stream_ordered()));
    eprintln!("read {:?}", start.elapsed());
    let one = (SideSummary::of(&base), base.side.clone());
    let start = Instant::now();
    let calibration = calibrate(&base.side, &Options::default(), CalibrationPlan { splits: 20, seed: 1 });
    eprintln!("calibrate {:?}", start.elapsed());
    let start = Instant::now();
    let compared = Compared::new(base, new, CompareRequest::default()).unwrap();
    eprintln!("compare {:?}", start.elapsed());
    let commands = [String::from("poolbench report A B")];
    let start = Instant::now();
    let page = HtmlReport::of_comparison(&compared).with_calibration(&calibration).with_commands(&commands).page();
    eprintln!("page {:?} {} bytes; {:?}", start.elapsed(), page.len(), compared.comparison.summary);
    std::fs::write(folder.join("compare.html"), page).unwrap();
    let page = HtmlReport::of_one(&one.0, &one.1).with_calibration(&calibration).with_commands(&commands).page();
    std::fs::write(folder.join("one.html"), page).unwrap();
}
