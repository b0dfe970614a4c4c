//! What a comparison costs: 300 benchmarks of 20 launches a side, and how it grows with the suite.
//! Aims: 300 in a second at most; 10,000 at most linearly more.

use std::hint::black_box;

use criterion::{BenchmarkId as Id, Criterion, Throughput, criterion_group, criterion_main};
use poolbench::stats::{BenchmarkId, LaunchKey, Options, RawLaunch, RawProbe, SessionId, Side, compare};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const BENCHMARKS: [usize; 3] = [300, 3_000, 10_000];
const LAUNCHES: u64 = 20;
const SAMPLES: usize = 10;

/// A side whose host-bound half has probes, in two sessions.
fn side(name: &str, benchmarks: usize, seed: u64) -> Side {
    let mut random = StdRng::seed_from_u64(seed);
    let mut side = Side::new();
    for index in 0..benchmarks {
        let id = BenchmarkId::new(format!("loop/strategy{}/{index}KiB", index % 7));
        side.set_host_bound(&id, index % 2 == 0);
        for order in 0..LAUNCHES {
            let session = SessionId::new(format!("{name}{}", order % 2));
            let times_ns: Vec<f64> = (0..SAMPLES).map(|_| 1e6 * random.random_range(0.95..1.05)).collect();
            let syscall: Vec<f64> = (0..SAMPLES).map(|_| 5e4 * random.random_range(0.95..1.05)).collect();
            let raw = RawLaunch {
                iters: &[100.0; SAMPLES],
                times_ns: &times_ns,
                probe_ns: Some(RawProbe {
                    syscall: &syscall,
                    ..RawProbe::default()
                }),
                flags: &[],
            };
            side.add(&id, &LaunchKey { session, order }, &raw);
        }
    }
    side
}

fn comparison(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compare");
    group.sample_size(10);
    for benchmarks in BENCHMARKS {
        let (base, new) = (side("a", benchmarks, 1), side("b", benchmarks, 2));
        group.throughput(Throughput::Elements(benchmarks as u64));
        group.bench_function(Id::from_parameter(benchmarks), |bencher| {
            bencher.iter(|| black_box(compare(&base, &new, &Options::default())));
        });
    }
}

criterion_group!(benches, comparison);
criterion_main!(benches);
