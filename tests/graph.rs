//! Graphs on whichever device is there: where their memory comes from and goes, and what becomes of
//! allocations that they leave. Expected codes and sizes are those seen on an H200 (driver 580.159.04,
//! CUDA 13.0).

mod common;

use common::graph::{MIB, allocating, capture, code, graph_mib, run, start};
use poolbench::case::Size;
use poolbench::cuda::{
    self, DeviceBuffer, DevicePtr, Graph, GraphExec, Kernels, MemoryPool, Stream, Unfreed, free_plain,
};

#[test]
fn graph_memory_comes_at_the_first_launch_and_goes_at_the_trim() {
    let (guarded, stream) = start();
    let device = &guarded.device;
    let pool = MemoryPool::default_of(device).expect("a default pool");
    let pool_before = pool.reserved_bytes_current().expect("readable");
    // Units of 32 MiB: 33 takes two, 100 takes four.
    for (size_bytes, mib) in [(1, 32), (MIB, 32), (32 * MIB, 32), (33 * MIB, 64), (100 * MIB, 128)] {
        let graph = allocating(&stream, &[size_bytes]);
        assert_eq!(graph.node_count().expect("countable"), 2);
        let exec = graph.instantiate(Unfreed::MustBeFreed).expect("can be made executable");
        assert_eq!(graph_mib(device), 0, "{size_bytes}: instantiated");
        run(&exec, &stream);
        assert_eq!(graph_mib(device), mib, "{size_bytes}: launched");
        (0..10).for_each(|_| run(&exec, &stream));
        assert_eq!(graph_mib(device), mib, "{size_bytes}: launched ten times more");
        device.trim_graph_memory().expect("nothing runs");
        assert_eq!(graph_mib(device), 0, "{size_bytes}: trimmed while executable");
        run(&exec, &stream);
        assert_eq!(graph_mib(device), mib, "{size_bytes}: launched after the trim");
        exec.close().expect("closes");
        graph.close().expect("closes");
        assert_eq!(graph_mib(device), mib, "{size_bytes}: destroyed");
        device.trim_graph_memory().expect("nothing runs");
        assert_eq!(graph_mib(device), 0, "{size_bytes}: trimmed");
    }
    assert_eq!(pool.reserved_bytes_current().expect("readable"), pool_before);
}

#[test]
fn an_upload_takes_the_memory_ahead_of_the_launch() {
    let (guarded, stream) = start();
    let graph = allocating(&stream, &[64 * MIB]);
    let exec = graph.instantiate(Unfreed::MustBeFreed).expect("can be made executable");
    exec.upload(&stream).expect("uploads");
    stream.synchronize().expect("runs");
    assert_eq!(graph_mib(&guarded.device), 64);
    run(&exec, &stream);
    assert_eq!(graph_mib(&guarded.device), 64);
    guarded.device.trim_graph_memory().expect("nothing runs");
    assert_eq!(graph_mib(&guarded.device), 0);
}

#[test]
fn graphs_share_memory_and_allocations_that_overlap_add_up() {
    let (guarded, stream) = start();
    let device = &guarded.device;
    let graphs = [allocating(&stream, &[64 * MIB]), allocating(&stream, &[64 * MIB])];
    let execs = graphs
        .each_ref()
        .map(|graph| graph.instantiate(Unfreed::MustBeFreed).expect("can be made executable"));
    for exec in execs.iter().chain(&execs) {
        exec.launch(&stream).expect("launches");
        assert_eq!(graph_mib(device), 64, "one after the other in the same memory");
    }
    stream.synchronize().expect("runs");
    device.trim_graph_memory().expect("nothing runs");
    // Blocks of one line of work, one after the other: the second is where the first was.
    let mut addresses = Vec::new();
    let successive = capture(&stream, || {
        (0..2).try_for_each(|_| {
            let block = MemoryPool::alloc_from_current(&stream, 32 * MIB)?;
            addresses.push(block);
            MemoryPool::free(&stream, block)
        })
    });
    assert_eq!(addresses[0], addresses[1]);
    let exec = successive
        .instantiate(Unfreed::MustBeFreed)
        .expect("can be made executable");
    run(&exec, &stream);
    assert_eq!(graph_mib(device), 32);
    device.trim_graph_memory().expect("nothing runs");
    let overlapping = capture(&stream, || {
        let blocks = [32 * MIB, 32 * MIB].map(|size_bytes| MemoryPool::alloc_from_current(&stream, size_bytes));
        blocks
            .into_iter()
            .try_for_each(|block| MemoryPool::free(&stream, block?))
    });
    let exec = overlapping
        .instantiate(Unfreed::MustBeFreed)
        .expect("can be made executable");
    run(&exec, &stream);
    assert_eq!(graph_mib(device), 64);
    device.trim_graph_memory().expect("nothing runs");
}

#[test]
fn high_watermarks_are_reset_to_what_is_current() {
    let (guarded, stream) = start();
    let device = &guarded.device;
    let exec = allocating(&stream, &[64 * MIB])
        .instantiate(Unfreed::MustBeFreed)
        .expect("can be made executable");
    run(&exec, &stream);
    device.trim_graph_memory().expect("nothing runs");
    let high = device.graph_memory().expect("readable").reserved_bytes_high;
    assert!(high >= 64 << 20, "{high}");
    device.reset_graph_memory_high_watermarks().expect("can be reset");
    assert_eq!(device.graph_memory().expect("readable"), cuda::GraphMemory::default());
}

#[test]
fn memory_of_a_running_graph_stays() {
    let (guarded, stream) = start();
    let device = &guarded.device;
    let kernels = Kernels::load().expect("the kernels load");
    let size = Size::mib(64);
    let input = DeviceBuffer::uninitialized(size.elements()).expect("fits");
    // Some 30 µs each on an H200, some 20 ms each on the host device.
    let kernels_of_graph = if device.is_host() { 3 } else { 500 };
    let graph = capture(&stream, || {
        let block = MemoryPool::alloc_from_current(&stream, size.as_bytes())?;
        for _ in 0..kernels_of_graph {
            kernels.fill(&stream, block, input.pointer(), size.elements(), 1.0)?;
        }
        MemoryPool::free(&stream, block)
    });
    let exec = graph.instantiate(Unfreed::MustBeFreed).expect("can be made executable");
    exec.launch(&stream).expect("launches");
    exec.close().expect("can be destroyed while it runs");
    device.trim_graph_memory().expect("no error while it runs");
    let after_trim = graph_mib(device);
    if stream.is_idle().expect("queries") {
        println!("SKIPPED memory_of_a_running_graph_stays: the graph was over before the trim was");
    } else {
        assert_eq!(after_trim, 64);
    }
    stream.synchronize().expect("runs");
    device.trim_graph_memory().expect("nothing runs");
    assert_eq!(graph_mib(device), 0);
}

/// A graph that allocates a buffer, fills it with `scale` times the input, and adds it to the output.
fn adding(stream: &Stream, kernels: &Kernels, buffers: [&DeviceBuffer; 2], scale: f32) -> GraphExec {
    let [input, output] = buffers;
    let graph = capture(stream, || {
        let block = MemoryPool::alloc_from_current(stream, size_of::<f32>() * input.len())?;
        kernels.fill(stream, block, input.pointer(), input.len(), scale)?;
        kernels.accumulate(stream, output.pointer(), block, input.len())?;
        MemoryPool::free(stream, block)
    });
    graph.instantiate(Unfreed::MustBeFreed).expect("can be made executable")
}

/// Neither two launches of one graph nor two graphs that may share memory get in each other's way.
#[test]
fn launches_in_two_streams_give_the_right_result() {
    let (guarded, first) = start();
    let second = Stream::new().expect("a stream");
    let kernels = Kernels::load().expect("the kernels load");
    let ones = vec![1.0; 50_000];
    let input = DeviceBuffer::from_slice(&first, &ones).expect("fits");
    let outputs = [(); 4].map(|()| DeviceBuffer::from_slice(&first, &vec![0.0; ones.len()]).expect("fits"));
    let [shared, own_first, own_second] = [(0, 1.0), (1, 2.0), (2, 3.0)]
        .map(|(output, scale)| adding(&first, &kernels, [&input, &outputs[output]], scale));
    let without_memory = capture(&first, || {
        kernels.accumulate(&first, outputs[3].pointer(), input.pointer(), input.len())
    });
    let without_memory = without_memory
        .instantiate(Unfreed::MustBeFreed)
        .expect("can be made executable");
    for _ in 0..300 {
        for (own, stream) in [(&own_first, &first), (&own_second, &second)] {
            own.launch(stream).expect("launches");
            shared.launch(stream).expect("launches");
            without_memory.launch(stream).expect("launches");
        }
    }
    first.synchronize().expect("runs");
    second.synchronize().expect("runs");
    // 300 launches each of 2 and 3 times one, and 600 of the graphs that both streams launch.
    for (output, expected) in outputs.iter().zip([600.0, 600.0, 900.0, 600.0]) {
        let elements = output.to_vec(&first).expect("readable");
        let wrong = elements.iter().position(|element| *element != expected);
        assert_eq!(wrong.map(|index| elements[index]), None, "not {expected}");
    }
    guarded.device.trim_graph_memory().expect("nothing runs");
}

// Executable graphs, and allocations that they leave.

#[test]
fn a_graph_that_allocates_is_executable_once_at_a_time() {
    let (guarded, stream) = start();
    let graph = allocating(&stream, &[MIB]);
    let exec = graph.instantiate(Unfreed::MustBeFreed).expect("can be made executable");
    let second = graph.instantiate(Unfreed::MustBeFreed).expect_err("not twice");
    assert_eq!(
        second.to_string(),
        "cuGraphInstantiateWithFlags failed: CUDA_ERROR_NOT_SUPPORTED (801)"
    );
    exec.close().expect("closes");
    graph
        .instantiate(Unfreed::MustBeFreed)
        .expect("again, after the first is gone")
        .close()
        .expect("closes");
    guarded.device.trim_graph_memory().expect("nothing runs");
}

/// A graph that allocates a block and leaves it.
fn leaving(stream: &Stream) -> (Graph, DevicePtr) {
    let mut block = DevicePtr::NULL;
    let graph = capture(stream, || {
        block = MemoryPool::alloc_from_current(stream, MIB)?;
        Ok(())
    });
    (graph, block)
}

#[test]
fn an_allocation_left_by_a_graph_must_be_freed_before_the_next_launch() {
    let (guarded, stream) = start();
    let device = &guarded.device;
    let (graph, block) = leaving(&stream);
    let exec = graph.instantiate(Unfreed::MustBeFreed).expect("can be made executable");
    assert_eq!(code(MemoryPool::free(&stream, block)), 1, "never launched");
    run(&exec, &stream);
    assert_eq!(code(exec.launch(&stream)), 1, "still allocated");
    device.trim_graph_memory().expect("no error");
    assert_eq!(graph_mib(device), 32, "still allocated");
    assert_eq!(code(MemoryPool::free(&stream, block)), 0);
    assert_eq!(code(MemoryPool::free(&stream, block)), 1, "freed twice");
    run(&exec, &stream);
    assert_eq!(code(free_plain(block)), 0, "by the synchronous call too");
    run(&exec, &stream);
    exec.close().expect("can be destroyed while its allocation lives");
    assert_eq!(code(MemoryPool::free(&stream, block)), 0);
    stream.synchronize().expect("runs");
    device.trim_graph_memory().expect("nothing runs");
    assert_eq!(graph_mib(device), 0);
}

#[test]
fn a_launch_can_free_what_the_last_one_left() {
    let (guarded, stream) = start();
    let (graph, block) = leaving(&stream);
    let exec = graph
        .instantiate(Unfreed::FreedOnLaunch)
        .expect("can be made executable");
    (0..3).for_each(|_| run(&exec, &stream));
    assert_eq!(graph_mib(&guarded.device), 32);
    MemoryPool::free(&stream, block).expect("the last launch's");
    stream.synchronize().expect("runs");
    guarded.device.trim_graph_memory().expect("nothing runs");
    assert_eq!(graph_mib(&guarded.device), 0);
}
