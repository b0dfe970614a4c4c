//! Reading a million rows of each format that is read as text or from memory: rows per second, on one core.

use std::hint::black_box;
use std::io::Write;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::{Compression, write::GzEncoder};
use poolbench::trace::{Limits, Synthetic, Workload, read_bytes, write_rmm_csv};

const EVENTS: u32 = 1_000_000;

fn csv() -> Vec<u8> {
    let mut synthetic = Synthetic::new(Workload::TrainingStep, 1, EVENTS);
    synthetic.streams = 4;
    let mut csv = Vec::new();
    write_rmm_csv(&synthetic.generate(), &mut csv).expect("writing to memory does not fail");
    csv
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(bytes)
        .and_then(|()| encoder.finish())
        .expect("writing to memory does not fail")
}

fn readers(criterion: &mut Criterion) {
    let csv = csv();
    let rows = csv.iter().filter(|&&byte| byte == b'\n').count() as u64 - 1;
    let mut group = criterion.benchmark_group("trace_reader");
    group.throughput(Throughput::Elements(rows));
    for (name, bytes) in [("rmm_csv", csv.clone()), ("rmm_csv_gzip", gzip(&csv))] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| read_bytes(black_box(&bytes), name, &Limits::default()));
        });
    }
    let trace = read_bytes(&csv, "csv", &Limits::default()).expect("it was read above");
    group.bench_function("summary", |bencher| {
        bencher.iter(|| black_box(&trace).summary());
    });
    group.finish();
}

fn configured() -> Criterion {
    Criterion::default().sample_size(10)
}

criterion_group!(name = benches; config = configured().configure_from_args(); targets = readers);
criterion_main!(benches);
