//! The memory of graphs: a pool of its own, which the device counts and the graph trim empties.

use crate::ground::{MIB, TestPool};
use crate::subject::{Observed, Probe, Stop, Subject, documented, observed};
use poolbench::cuda::{self, CaptureMode, Device, DevicePtr, Graph, GraphExec, MemoryPool, Stream, Unfreed};
use poolbench::driver::Code;

pub const SUBJECTS: &[Subject] = &[
    documented(
        "graph_memory/is_no_pools",
        "What a graph allocates is the graph's: no pool counts it, neither the default pool nor one that was named.",
        is_no_pools,
    ),
    documented(
        "graph_memory/each_trim_has_its_own",
        "The trim of a pool leaves graph memory, and the graph trim gives it back and leaves what pools hold.",
        each_trim_has_its_own,
    ),
    documented(
        "graph_memory/outlives_its_graph",
        "Destroying a graph gives nothing back before the graph trim.",
        outlives_its_graph,
    ),
    documented(
        "graph_memory/comes_back_after_a_trim",
        "A graph whose memory was trimmed takes memory again when it is launched.",
        comes_back_after_a_trim,
    ),
    documented(
        "graph_memory/unfreed_allocations_stay",
        "The graph trim leaves memory with an allocation that nobody freed, and its contents.",
        unfreed_allocations_stay,
    ),
    documented(
        "graph_memory/high_marks_reset",
        "High watermarks keep the most there was through a trim, and a reset sets them to what is current.",
        high_marks_reset,
    ),
    observed(
        "graph_memory/grows_by_32_mib",
        "Graph memory comes at the first launch, in steps of 32 MiB, and used is what is reserved.",
        grows_by_32_mib,
    ),
    observed(
        "graph_memory/stays_through_a_synchronise",
        "No synchronise gives graph memory back: it has no release threshold.",
        stays_through_a_synchronise,
    ),
    observed(
        "graph_memory/is_shared_in_a_stream",
        "Graphs that run one after the other in a stream use the same memory.",
        is_shared_in_a_stream,
    ),
];

/// The stream of an observation that begins without graph memory; a skip where the driver has none.
fn begin(probe: &Probe<'_>) -> Result<Stream, Stop> {
    let skip = |error: cuda::Error| match error.code() {
        Some(Code::NOT_SUPPORTED) => Stop::Skipped(error.to_string()),
        _ => Stop::Failed(error),
    };
    probe.device.synchronize()?;
    probe.device.trim_graph_memory().map_err(skip)?;
    match reserved_mib(probe.device)? {
        0 => Ok(Stream::new()?),
        left => Err(Stop::Skipped(format!("{left} MiB of graph memory are in use"))),
    }
}

fn reserved_mib(device: &Device) -> cuda::Result<u64> {
    Ok(device.graph_memory()?.reserved_bytes_current / MIB)
}

/// A graph of what `submit` submits.
fn capture(stream: &Stream, submit: impl FnOnce() -> cuda::Result<()>) -> cuda::Result<(Graph, GraphExec)> {
    let graph = stream.capture(CaptureMode::ThreadLocal, submit)?;
    let exec = graph.instantiate(Unfreed::MustBeFreed)?;
    Ok((graph, exec))
}

fn bytes(size_mib: u64) -> usize {
    usize::try_from(size_mib * MIB).expect("64 bits")
}

/// A graph that allocates, sets a word and frees.
fn allocating(stream: &Stream, size_mib: u64) -> cuda::Result<(Graph, GraphExec)> {
    capture(stream, || {
        let block = MemoryPool::alloc_from_current(stream, bytes(size_mib))?;
        stream.set_words(block, 1, 1)?;
        MemoryPool::free(stream, block)
    })
}

fn run(exec: &GraphExec, stream: &Stream) -> cuda::Result<()> {
    exec.launch(stream)?;
    stream.synchronize()
}

/// Leaves the device as the observation found it.
fn end(probe: &Probe<'_>, graph: Graph, exec: GraphExec) -> Observed {
    exec.close()?;
    graph.close()?;
    Ok(probe.device.trim_graph_memory()?)
}

fn is_no_pools(probe: &mut Probe<'_>) -> Observed {
    let stream = begin(probe)?;
    let (named, default) = (probe.pool()?, MemoryPool::default_of(probe.device)?);
    let held = |pool: &MemoryPool| Ok::<_, cuda::Error>([pool.used_bytes_current()?, pool.reserved_bytes_current()?]);
    let before = held(&default)?;
    let (graph, exec) = capture(&stream, || {
        let blocks = [
            MemoryPool::alloc_from_current(&stream, bytes(32))?,
            MemoryPool::alloc(&named, &stream, bytes(32))?,
        ];
        blocks.into_iter().try_for_each(|block| {
            stream.set_words(block, 1, 1)?;
            MemoryPool::free(&stream, block)
        })
    })?;
    run(&exec, &stream)?;
    probe.expect("graphs hold both blocks", true, reserved_mib(probe.device)? >= 64);
    probe.expect("used and reserved bytes of the default pool", before, held(&default)?);
    probe.expect("used and reserved bytes of the named pool", [0, 0], held(&named)?);
    end(probe, graph, exec)
}

fn each_trim_has_its_own(probe: &mut Probe<'_>) -> Observed {
    let stream = begin(probe)?;
    let pool: TestPool = probe.pool()?;
    pool.keep_everything()?;
    let (graph, exec) = allocating(&stream, 64)?;
    run(&exec, &stream)?;
    let in_graphs = reserved_mib(probe.device)?;
    probe.expect("graphs hold 64 MiB", true, in_graphs >= 64);
    for pool in [&MemoryPool::default_of(probe.device)?, &*pool] {
        pool.trim_to(0)?;
        let what = "MiB of graphs after the trim of a pool";
        probe.expect(what, in_graphs, reserved_mib(probe.device)?);
    }
    pool.cache(&stream, 96)?;
    stream.synchronize()?;
    let in_pool = pool.reserved_mib()?;
    probe.device.trim_graph_memory()?;
    probe.expect("MiB of graphs after the graph trim", 0, reserved_mib(probe.device)?);
    probe.expect("MiB of the pool after the graph trim", in_pool, pool.reserved_mib()?);
    end(probe, graph, exec)
}

fn outlives_its_graph(probe: &mut Probe<'_>) -> Observed {
    let stream = begin(probe)?;
    let (graph, exec) = allocating(&stream, 64)?;
    run(&exec, &stream)?;
    let before = reserved_mib(probe.device)?;
    exec.close()?;
    graph.close()?;
    probe.expect("graphs held 64 MiB", true, before >= 64);
    probe.expect(
        "MiB of graphs after the graph is gone",
        before,
        reserved_mib(probe.device)?,
    );
    probe.device.trim_graph_memory()?;
    probe.expect("MiB of graphs after the graph trim", 0, reserved_mib(probe.device)?);
    Ok(())
}

fn comes_back_after_a_trim(probe: &mut Probe<'_>) -> Observed {
    let stream = begin(probe)?;
    let (graph, exec) = allocating(&stream, 64)?;
    for launch in ["first", "second, after a trim"] {
        probe.expect_code(format_args!("the {launch} launch"), 0, &run(&exec, &stream));
        let held = reserved_mib(probe.device)? >= 64;
        probe.expect(format_args!("graphs hold 64 MiB after the {launch} launch"), true, held);
        probe.device.trim_graph_memory()?;
        probe.expect("MiB of graphs after the graph trim", 0, reserved_mib(probe.device)?);
    }
    end(probe, graph, exec)
}

fn unfreed_allocations_stay(probe: &mut Probe<'_>) -> Observed {
    let stream = begin(probe)?;
    let mut block = DevicePtr::NULL;
    let mut seen = vec![0.0; bytes(32) / size_of::<f32>()];
    let (graph, exec) = capture(&stream, || {
        block = MemoryPool::alloc_from_current(&stream, bytes(32))?;
        stream.set_words(block, 2.5_f32.to_bits(), bytes(32) / size_of::<u32>())
    })?;
    run(&exec, &stream)?;
    probe.device.trim_graph_memory()?;
    let held = reserved_mib(probe.device)? >= 32;
    probe.expect("graphs hold the block after the graph trim", true, held);
    stream.copy_to_host(&mut seen, block)?;
    let as_it_was = seen.iter().all(|element| *element == 2.5);
    probe.expect("every element as the graph set it", true, as_it_was);
    MemoryPool::free(&stream, block)?;
    stream.synchronize()?;
    probe.device.trim_graph_memory()?;
    probe.expect("MiB of graphs once it is freed", 0, reserved_mib(probe.device)?);
    end(probe, graph, exec)
}

fn high_marks_reset(probe: &mut Probe<'_>) -> Observed {
    let stream = begin(probe)?;
    probe.device.reset_graph_memory_high_watermarks()?;
    let (graph, exec) = allocating(&stream, 64)?;
    run(&exec, &stream)?;
    probe.device.trim_graph_memory()?;
    let seen = probe.device.graph_memory()?;
    probe.expect(
        "MiB of graphs after the graph trim",
        0,
        seen.reserved_bytes_current / MIB,
    );
    probe.expect(
        "the high watermark keeps 64 MiB",
        true,
        seen.reserved_bytes_high >= 64 * MIB,
    );
    probe.device.reset_graph_memory_high_watermarks()?;
    let high = probe.device.graph_memory()?.reserved_bytes_high;
    probe.expect("the high watermark after its reset", 0, high);
    end(probe, graph, exec)
}

fn grows_by_32_mib(probe: &mut Probe<'_>) -> Observed {
    let stream = begin(probe)?;
    for (size_mib, held_mib) in [(1, 32), (32, 32), (33, 64), (100, 128)] {
        let (graph, exec) = allocating(&stream, size_mib)?;
        let before = reserved_mib(probe.device)?;
        probe.expect(format_args!("MiB for {size_mib} MiB, made executable"), 0, before);
        for launch in ["once", "twice"] {
            run(&exec, &stream)?;
            let held = probe.device.graph_memory()?;
            let held = [held.used_bytes_current, held.reserved_bytes_current].map(|bytes| bytes / MIB);
            let what = format!("used and reserved MiB for {size_mib} MiB, launched {launch}");
            probe.expect(what, [held_mib; 2], held);
        }
        end(probe, graph, exec)?;
    }
    Ok(())
}

fn stays_through_a_synchronise(probe: &mut Probe<'_>) -> Observed {
    let stream = begin(probe)?;
    let (graph, exec) = allocating(&stream, 64)?;
    run(&exec, &stream)?;
    probe.expect("MiB after the stream's synchronise", 64, reserved_mib(probe.device)?);
    probe.device.synchronize()?;
    probe.expect("MiB after the context's synchronise", 64, reserved_mib(probe.device)?);
    end(probe, graph, exec)
}

fn is_shared_in_a_stream(probe: &mut Probe<'_>) -> Observed {
    let stream = begin(probe)?;
    let graphs = [allocating(&stream, 64)?, allocating(&stream, 64)?];
    for (_, exec) in &graphs {
        run(exec, &stream)?;
        probe.expect("MiB of both graphs", 64, reserved_mib(probe.device)?);
    }
    graphs.into_iter().try_for_each(|(graph, exec)| end(probe, graph, exec))
}
