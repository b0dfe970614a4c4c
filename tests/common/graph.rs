//! What the tests of capture, graphs and graph replay share.

use super::Guarded;
use poolbench::cuda::{self, CaptureMode, Device, Graph, GraphExec, MemoryPool, Stream};

pub const MIB: usize = 1 << 20;

/// The code of a result, 0 for success.
pub fn code<T>(result: cuda::Result<T>) -> i32 {
    result.map_or_else(|error| error.code().expect("a call failed").0, |_| 0)
}

/// Reserved graph memory, in MiB. What is used is the same, always.
pub fn graph_mib(device: &Device) -> u64 {
    let memory = device.graph_memory().expect("readable");
    assert_eq!(memory.used_bytes_current, memory.reserved_bytes_current);
    assert!(memory.reserved_bytes_high >= memory.reserved_bytes_current);
    memory.reserved_bytes_current >> 20
}

pub fn capture(stream: &Stream, submit: impl FnOnce() -> cuda::Result<()>) -> Graph {
    stream.capture(CaptureMode::Global, submit).expect("can be captured")
}

/// A graph that allocates and frees blocks of these sizes, one after the other.
pub fn allocating(stream: &Stream, sizes: &[usize]) -> Graph {
    capture(stream, || {
        sizes.iter().try_for_each(|size_bytes| {
            let block = MemoryPool::alloc_from_current(stream, *size_bytes)?;
            MemoryPool::free(stream, block)
        })
    })
}

pub fn run(exec: &GraphExec, stream: &Stream) {
    exec.launch(stream).expect("launches");
    stream.synchronize().expect("runs");
}

pub fn start() -> (Guarded, Stream) {
    let guarded = super::device();
    guarded.device.trim_graph_memory().expect("nothing runs");
    assert_eq!(graph_mib(&guarded.device), 0, "another test left graph memory");
    (guarded, Stream::new().expect("a stream"))
}
