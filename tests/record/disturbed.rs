//! What something disturbed is repeated within a budget, and marked beyond it.

use super::stand_in::IDS;
use super::support::{Place, refusal, stderr, stdout, succeed};

const NAME: &str = "stand-in_1.0_cuda13.0";

fn flags(place: &Place) -> Vec<Vec<String>> {
    let baseline = place.baseline(NAME);
    baseline
        .launches
        .iter()
        .map(|launch| launch.samples[IDS[0]].flags.clone())
        .collect()
}

#[test]
fn a_disturbed_measurement_is_thrown_away_and_repeated() {
    let place = Place::with_stand_ins();
    // The first process of the executable is disturbed, and its repeat is not.
    let output = succeed(place.record(&["--launches", "3"]).env("STAND_IN_FLAGGED_UNTIL", "1"));
    assert!(
        stderr(&output).contains("launch 1 of 3 done")
            && stderr(&output).contains("; threw away and repeated 1 (throttled 1)"),
        "{}",
        stderr(&output)
    );
    assert!(
        stdout(&output).contains("1 repeated, 0 marked as disturbed"),
        "{}",
        stdout(&output)
    );
    assert_eq!(place.baseline(NAME).manifest.settings.repeated, 1);
    assert_eq!(flags(&place), [vec![], vec![], vec![] as Vec<String>]);
    // The repeat measured the one id and nothing else: the third field of a start.
    let asked: Vec<String> = place
        .starts("first")
        .iter()
        .map(|start| start.split(' ').nth(2).expect("a number").to_owned())
        .collect();
    assert_eq!(asked, ["0", "1", "3", "3"]);
}

/// Four benchmarks and 8 launches are 32 measurements, of which 3 may be repeated: twice in the first
/// launch, once in the second. What is disturbed then keeps its mark.
#[test]
fn repeats_end_with_their_budget_and_the_rest_is_marked() {
    let place = Place::with_stand_ins();
    let output = succeed(place.record(&["--launches", "8"]).env("STAND_IN_FLAGGED_UNTIL", "1000"));
    assert_eq!(place.baseline(NAME).manifest.settings.repeated, 3);
    assert!(
        flags(&place).iter().all(|flags| flags == &["throttled"]),
        "{:?}",
        flags(&place)
    );
    assert_eq!(place.starts("first").len(), 8 + 3);
    assert!(
        stderr(&output).contains("1 stays marked as disturbed"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_machine_that_changes_ends_the_recording() {
    let place = Place::with_stand_ins();
    let last = refusal(place.record(&["--launches", "3"]).env("STAND_IN_CHANGES_AT", "2"), 3);
    assert!(
        last.contains(r#"device.driver_version: "1.0" at first, "2.0" now"#)
            && last.contains("1 of 3 launches is kept"),
        "{last}"
    );
    assert!(!place.has_baselines());
}
