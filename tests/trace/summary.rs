//! The summary, as text and as JSON.

use poolbench::trace::{SizeBucket, text};

use super::support::trace;

/// Derived by hand: blocks of 100, 1024 and 5 bytes; the second is freed by the other thread on another stream.
const LOG: &str = "Thread,Time,Action,Pointer,Size,Stream
1,10:00:00.000000,allocate,0x10,100,0
1,10:00:00.000010,allocate,0x20,1024,0x7f8a38001020
2,10:00:00.000030,free,0x20,1024,0
1,10:00:00.000040,free,0x10,100,0
1,10:00:00.000050,allocate,0x10,5,0
1,10:00:00.000060,allocate failure,0x0,1099511627776,0
";

#[test]
fn figures_are_those_of_the_log() {
    let summary = trace(LOG).summary();
    assert_eq!((summary.events, summary.allocations, summary.frees), (5, 3, 2));
    assert_eq!(summary.peak.bytes, 1_124);
    assert_eq!((summary.peak.blocks, summary.peak.at_event), (2, 1));
    assert_eq!((summary.live_at_end.blocks, summary.live_at_end.bytes), (1, 5));
    assert_eq!((summary.cross_thread_frees, summary.cross_stream_frees), (1, 1));
    // 5 is in 4..8, 100 in 64..128, 1024 in 1024..2048.
    let full: Vec<SizeBucket> = summary
        .sizes
        .iter()
        .copied()
        .filter(|bucket| bucket.blocks > 0)
        .collect();
    let bucket = |from_bytes| SizeBucket { from_bytes, blocks: 1 };
    assert_eq!(full, [bucket(4), bucket(64), bucket(1024)]);
    assert_eq!(summary.sizes.len(), 9);
    let events = summary.lifetimes.events.expect("two blocks are freed");
    assert_eq!((events.min, events.max), (1, 3));
    let times = summary.lifetimes.time_ns.expect("the log has times");
    assert_eq!((times.min, times.max), (20_000, 40_000));
}

#[test]
fn text_is_laid_out_in_tables() {
    assert_eq!(text(&trace(LOG).summary()), EXPECTED);
}

const EXPECTED: &str = "\
source              RMM CSV log
events              5
allocations         3
frees               2
duration            50.00 us
peak live bytes     1.10 KiB (1,124)
peak live blocks    2
distinct sizes      3
blocks never freed  1, of 5 B
orphan frees        0
cross-thread frees  1
cross-stream frees  1

size from  blocks   share
4B              1  33.3 %  ########################################
8B              0   0.0 %
16B             0   0.0 %
32B             0   0.0 %
64B             1  33.3 %  ########################################
128B            0   0.0 %
256B            0   0.0 %
512B            0   0.0 %
1KiB            1  33.3 %  ########################################

lifetime       min    median      90 %      99 %       max
events           1         1         3         3         3
time      20.00 us  20.00 us  40.00 us  40.00 us  40.00 us

stream          device  allocations  frees  waits         allocated
0                    0            2      2      0             105 B
0x7f8a38001020       0            1      0      0  1.00 KiB (1,024)

thread  allocations  frees  waits
1                 3      1      0
2                 0      1      0

notes
  allocations that failed, left out: 1 (first: row 7)
";

#[test]
fn json_has_the_documented_keys() {
    let summary = serde_json::to_value(trace(LOG).summary()).expect("a summary serializes");
    assert_eq!(summary["format_version"], 1);
    assert_eq!(summary["source"], "rmm_csv");
    assert_eq!(summary["peak"]["bytes"], 1_124);
    assert_eq!(summary["live_at_end"]["blocks"], 1);
    assert_eq!(summary["sizes"][0]["from_bytes"], 4);
    assert_eq!(summary["lifetimes"]["events"]["median"], 1);
    assert_eq!(summary["streams"][1]["id"], 0x7f8a_3800_1020u64);
    assert_eq!(summary["threads"][1]["thread"], 2);
    assert_eq!(summary["warnings"][0]["kind"], "allocation_failure");
    assert_eq!(summary["warnings"][0]["first"]["row"], 7);
}
