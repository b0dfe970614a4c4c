//! Traces from a seed, with the shape of real ones.
//!
//! Shapes follow the traces and reports in the project's references: a PyTorch training step (large activations
//! that a second thread frees in reverse order), text-to-speech inference (few sizes, everything freed), a prompt
//! that grows with each request (llama.cpp#22107), C++ code with many tiny blocks, and large survivors between
//! small blocks, the pattern that fragments.

use std::collections::{BTreeMap, VecDeque};
use std::iter;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use super::{Allocation, Event, EventKind, Format, Stream, Trace};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Steps of a network's training. Sizes are multiples of 512 B, log-uniform from 512 B to 32 MiB. Thread 0 runs
    /// the forward pass, thread 1 the backward pass, which frees the forward's activations in reverse: a fifth to
    /// a third of all frees cross threads. Most blocks are workspaces freed within four events. Live memory rises
    /// to the end of the forward pass and falls to the weights.
    TrainingStep,
    /// Requests to a network with fixed shapes: 37 sizes from 1 B to 12 MB that come in the same order each time,
    /// at most 4 live at once, none between requests. One thread.
    Inference,
    /// Requests whose 16 blocks are each 1 % larger than in the request before, from 1 MiB; after 400 requests back
    /// to the start. All blocks of a request live until its end: no block freed before is large enough.
    GrowingRequest,
    /// Blocks of 1 B to 4 KiB, log-uniform, with 1,000 live; each allocation beyond frees a random live one.
    ManyTiny,
    /// Eight small blocks (16 KiB to 1 MiB), then a large one (32 to 128 MiB, in MiB); the small ones go, the large
    /// one outlives seven more such rounds.
    Survivors,
}

impl Workload {
    /// Every shape.
    pub const ALL: [Workload; 5] = [
        Workload::TrainingStep,
        Workload::Inference,
        Workload::GrowingRequest,
        Workload::ManyTiny,
        Workload::Survivors,
    ];

    /// The name in benchmark ids.
    pub fn name(self) -> &'static str {
        match self {
            Workload::TrainingStep => "training_step",
            Workload::Inference => "inference",
            Workload::GrowingRequest => "growing_request",
            Workload::ManyTiny => "many_tiny",
            Workload::Survivors => "survivors",
        }
    }
}

/// A trace to be generated. The same values give the same trace.
///
/// On several streams, each stream runs the shape on its own, from a seed of its own, and the streams' calls
/// interleave at random, so that their blocks live at the same time. Each unit (step, request, round) ends with
/// a wait for its stream. Calls are 1 to 16 us apart, 0.1 to 1 ms after a wait. All blocks are freed at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// The shape.
    pub workload: Workload,
    /// Any number.
    pub seed: u64,
    /// At least so many events; whole units are generated, and what is live is freed: up to 1,200 more a stream.
    pub events: u32,
    /// How many streams; 0 is taken as 1.
    pub streams: u32,
}

impl Synthetic {
    /// A trace of one stream.
    pub fn new(workload: Workload, seed: u64, events: u32) -> Synthetic {
        Synthetic {
            workload,
            seed,
            events,
            streams: 1,
        }
    }

    /// The trace.
    pub fn generate(&self) -> Trace {
        let n = self.streams.max(1);
        let mut rng = StdRng::seed_from_u64(self.seed);
        let target = self.events.div_ceil(n) as usize;
        let scripts: Vec<Script> = (0..n)
            .map(|_| Script::write(self.workload, rng.random(), target))
            .collect();
        interleave(scripts, &mut rng)
    }
}

/// One call of a stream. Blocks are numbered within the stream.
#[derive(Clone, Copy, Debug)]
enum Op {
    Alloc { size_bytes: u64, thread: u32 },
    Free { block: u32, thread: u32 },
    Sync,
}

/// One stream's calls.
struct Script {
    ops: Vec<Op>,
    blocks: u32,
    rng: StdRng,
}

impl Script {
    fn write(workload: Workload, seed: u64, target: usize) -> Script {
        let mut script = Script {
            ops: Vec::new(),
            blocks: 0,
            rng: StdRng::seed_from_u64(seed),
        };
        match workload {
            Workload::TrainingStep => script.training(target),
            Workload::Inference => script.inference(target),
            Workload::GrowingRequest => script.growing(target),
            Workload::ManyTiny => script.tiny(target),
            Workload::Survivors => script.survivors(target),
        }
        script
    }

    fn alloc(&mut self, size_bytes: u64, thread: u32) -> u32 {
        self.ops.push(Op::Alloc { size_bytes, thread });
        self.blocks += 1;
        self.blocks - 1
    }

    fn free(&mut self, block: u32, thread: u32) {
        self.ops.push(Op::Free { block, thread });
    }

    fn unfinished(&self, target: usize) -> bool {
        self.ops.len() < target
    }

    /// A size between two powers of two, uniform in its logarithm, rounded up to `granule`.
    fn size(&mut self, from_power: u32, to_power: u32, granule: u64) -> u64 {
        let exponent = self.rng.random_range(f64::from(from_power)..f64::from(to_power));
        (exponent.exp2() as u64).max(1).next_multiple_of(granule)
    }

    fn training(&mut self, target: usize) {
        const LAYERS: usize = 48;
        const FORWARD: u32 = 0;
        const BACKWARD: u32 = 1;
        // The shapes are the network's: every step asks for the same sizes.
        let shapes: Vec<[u64; 3]> = iter::repeat_with(|| [(); 3].map(|()| self.size(9, 25, 512)))
            .take(LAYERS)
            .collect();
        let weights: Vec<u32> = shapes.iter().map(|&[weight, ..]| self.alloc(weight, FORWARD)).collect();
        while self.unfinished(target) {
            let mut activations = Vec::new();
            for &[_, activation, workspace] in &shapes {
                let block = self.alloc(workspace, FORWARD);
                activations.push(self.alloc(activation, FORWARD));
                self.free(block, FORWARD);
            }
            let mut gradients = Vec::new();
            for &[weight, activation, workspace] in shapes.iter().rev() {
                let block = self.alloc(workspace, BACKWARD);
                gradients.push(self.alloc(weight, BACKWARD));
                let input_gradient = self.alloc(activation, BACKWARD);
                self.free(block, BACKWARD);
                self.free(input_gradient, BACKWARD);
                if let Some(activation) = activations.pop() {
                    self.free(activation, BACKWARD);
                }
            }
            // The optimiser runs on the first thread.
            for (gradient, &[weight, ..]) in gradients.into_iter().zip(shapes.iter().rev()) {
                let block = self.alloc(weight, FORWARD);
                self.free(block, FORWARD);
                self.free(gradient, FORWARD);
            }
            self.ops.push(Op::Sync);
        }
        for weight in weights {
            self.free(weight, FORWARD);
        }
    }

    fn inference(&mut self, target: usize) {
        const SIZES: u64 = 37;
        const LIVE: usize = 4;
        // From 1 B to 12 MB in equal ratios, in an order that stays.
        let ratio = 12e6f64.powf(1.0 / (SIZES - 1) as f64);
        let mut sizes: Vec<u64> = (0..SIZES)
            .scan(1.0, |size, _| {
                let this = *size;
                *size *= ratio;
                Some(this)
            })
            .zip(0..)
            // The smallest ones are less than 1 apart.
            .map(|(size, least)| (size.round() as u64).max(1 + least))
            .collect();
        for last in (1..sizes.len()).rev() {
            let other = self.rng.random_range(0..=last);
            sizes.swap(last, other);
        }
        while self.unfinished(target) {
            let mut live = VecDeque::new();
            for &size_bytes in &sizes {
                if live.len() == LIVE
                    && let Some(block) = live.pop_front()
                {
                    self.free(block, 0);
                }
                live.push_back(self.alloc(size_bytes, 0));
            }
            for block in live {
                self.free(block, 0);
            }
            self.ops.push(Op::Sync);
        }
    }

    fn growing(&mut self, target: usize) {
        const BLOCKS: usize = 16;
        const REQUESTS: i32 = 400;
        for request in (0..REQUESTS).cycle() {
            if !self.unfinished(target) {
                break;
            }
            let size_bytes = (MIB as f64 * 1.01f64.powi(request)) as u64;
            let live = [(); BLOCKS].map(|()| self.alloc(size_bytes, 0));
            for block in live {
                self.free(block, 0);
            }
            self.ops.push(Op::Sync);
        }
    }

    fn tiny(&mut self, target: usize) {
        const LIVE: usize = 1_000;
        const ROUND: usize = 100;
        let mut live = Vec::with_capacity(LIVE);
        while self.unfinished(target) {
            for _ in 0..ROUND {
                if live.len() == LIVE {
                    let at = self.rng.random_range(0..LIVE);
                    let block = live.swap_remove(at);
                    self.free(block, 0);
                }
                let size_bytes = self.size(0, 12, 1);
                live.push(self.alloc(size_bytes, 0));
            }
            self.ops.push(Op::Sync);
        }
        for block in live {
            self.free(block, 0);
        }
    }

    fn survivors(&mut self, target: usize) {
        const SMALL: usize = 8;
        const ROUNDS_SURVIVED: usize = 7;
        let mut large = VecDeque::new();
        while self.unfinished(target) {
            let small = [(); SMALL].map(|()| {
                let size_bytes = self.size(14, 20, KIB);
                self.alloc(size_bytes, 0)
            });
            let size_bytes = self.rng.random_range(32..=128) * MIB;
            large.push_back(self.alloc(size_bytes, 0));
            for block in small {
                self.free(block, 0);
            }
            if large.len() > ROUNDS_SURVIVED
                && let Some(block) = large.pop_front()
            {
                self.free(block, 0);
            }
            self.ops.push(Op::Sync);
        }
        for block in large {
            self.free(block, 0);
        }
    }
}

/// Puts the streams' calls in one order: each call is that of a random stream, by what the streams have left.
fn interleave(scripts: Vec<Script>, rng: &mut StdRng) -> Trace {
    let mut left: usize = scripts.iter().map(|script| script.ops.len()).sum();
    let mut trace = Trace {
        format: Format::Synthetic,
        events: Vec::with_capacity(left),
        allocations: Vec::with_capacity(left / 2),
        threads: Vec::new(),
        streams: (0..scripts.len() as u64)
            .map(|id| Stream {
                id,
                ..Stream::default()
            })
            .collect(),
        orphan_frees: 0,
        live_before: BTreeMap::new(),
        times_known: true,
        warnings: Vec::new(),
    };
    let mut cursors: Vec<(usize, Vec<u32>)> = vec![(0, Vec::new()); scripts.len()];
    let mut time_ns = 0;
    while left > 0 {
        let mut at = rng.random_range(0..left);
        let picked = scripts.iter().zip(&cursors).position(|(script, cursor)| {
            let remaining = script.ops.len() - cursor.0;
            let found = at < remaining;
            at = at.saturating_sub(remaining);
            found
        });
        let Some(stream) = picked else { break };
        let (next, blocks) = &mut cursors[stream];
        let op = scripts[stream].ops[*next];
        *next += 1;
        left -= 1;
        append(&mut trace, blocks, stream as u32, time_ns, op);
        time_ns += match op {
            Op::Sync => rng.random_range(100_000..1_000_000),
            Op::Alloc { .. } | Op::Free { .. } => rng.random_range(1_000..16_000),
        };
    }
    let threads = trace.events.iter().map(|event| event.thread + 1).max();
    trace.threads = (0..u64::from(threads.unwrap_or(0))).collect();
    trace
}

/// Adds a call. `blocks` leads from the stream's block numbers to the trace's.
fn append(trace: &mut Trace, blocks: &mut Vec<u32>, stream: u32, time_ns: u64, op: Op) {
    let index = trace.events.len() as u32;
    let (kind, allocation, thread) = match op {
        Op::Alloc { size_bytes, thread } => {
            let allocation = trace.allocations.len() as u32;
            blocks.push(allocation);
            trace.allocations.push(Allocation {
                size_bytes,
                alloc_event: index,
                free_event: Event::NONE,
            });
            (EventKind::Alloc, allocation, thread)
        }
        Op::Free { block, thread } => {
            let allocation = blocks[block as usize];
            trace.allocations[allocation as usize].free_event = index;
            (EventKind::Free, allocation, thread)
        }
        Op::Sync => (EventKind::Sync, Event::NONE, 0),
    };
    trace.events.push(Event {
        time_ns,
        allocation,
        thread,
        stream,
        kind,
    });
}
