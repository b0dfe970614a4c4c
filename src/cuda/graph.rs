//! Graphs: work captured once from a stream, and replayed in one submission.

use super::error::{Error, Result, check, note_unreleased, report_failed_drop};
use super::{Device, Stream};
use crate::driver::{Code, Function, api};
use cust::sys::{CUgraph, CUgraphExec};
use std::ffi::c_void;

/// Which threads a capture keeps from calls that are unsafe beside it, such as a plain allocation.
/// Source: `CUstreamCaptureMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CaptureMode {
    /// Every thread of the process.
    Global = 0,
    /// The thread that captures.
    ThreadLocal = 1,
    /// None.
    Relaxed = 2,
}

impl CaptureMode {
    /// Every mode, the strictest first.
    pub const ALL: [CaptureMode; 3] = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];
}

/// Whether a stream is being captured. Source: `CUstreamCaptureStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureStatus {
    /// What is submitted runs.
    None,
    /// What is submitted becomes a graph's nodes.
    Active,
    /// A call that capture forbids was made; the capture must still be ended.
    Invalidated,
}

/// A capture that has begun, and ends with this value whatever happens.
struct Capture<'a> {
    stream: &'a Stream,
    is_open: bool,
}

impl<'a> Capture<'a> {
    fn begin(stream: &'a Stream, mode: CaptureMode) -> Result<Capture<'a>> {
        // SAFETY: the handle is live.
        check(Function::cuStreamBeginCapture_v2, unsafe {
            api::cuStreamBeginCapture_v2(stream.raw(), mode as u32)
        })?;
        Ok(Capture { stream, is_open: true })
    }

    /// Ends the capture, and returns the graph, if there is one, beside what the driver said.
    fn end(&mut self) -> (Graph, Result<()>) {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the handle is live and `raw` is a valid place for a graph.
        let code = unsafe { api::cuStreamEndCapture(self.stream.raw(), &raw mut raw) };
        let ended = check(Function::cuStreamEndCapture, code);
        // A capture that was invalidated is over; of any other refusal only the driver knows.
        let is_over = code == 0 || code == Code::STREAM_CAPTURE_INVALIDATED.0;
        self.is_open = !is_over && self.stream.capture_status() != Ok(CaptureStatus::None);
        (Graph { raw }, ended)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        // The failure that led here is the one to report, unless the stream is still capturing.
        if !self.is_open {
            return;
        }
        let (graph, ended) = self.end();
        match ended {
            Err(error) if error.code() != Some(Code::STREAM_CAPTURE_INVALIDATED) => note_unreleased(error),
            _ => {}
        }
        drop(graph);
        // A refusal need not be the last word, and the stream is of no use as long as it captures.
        if self.is_open {
            drop(self.end());
        }
    }
}

impl Stream {
    /// Captures what `submit` submits to this stream, and returns it as a graph. Nothing of it runs.
    /// The stream is not capturing afterwards, also where `submit` fails or panics.
    ///
    /// # Errors
    ///
    /// What `submit` returns; the driver's refusal to begin; and code 901 at the end, where `submit`
    /// made a call that capture forbids and went on.
    pub fn capture<E: From<Error>>(
        &self,
        mode: CaptureMode,
        submit: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Graph, E> {
        let mut capture = Capture::begin(self, mode)?;
        submit()?;
        let (graph, ended) = capture.end();
        ended?;
        Ok(graph)
    }

    /// Whether the stream is being captured.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn capture_status(&self) -> Result<CaptureStatus> {
        let mut status = 0;
        // SAFETY: the handle is live and `status` is a valid place for an enum.
        let code = unsafe { api::cuStreamIsCapturing(self.raw(), &raw mut status) };
        check(Function::cuStreamIsCapturing, code)?;
        Ok(match status {
            0 => CaptureStatus::None,
            1 => CaptureStatus::Active,
            _ => CaptureStatus::Invalidated,
        })
    }
}

/// What is left to do with allocations that a graph makes and does not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Unfreed {
    /// They must be freed before the next launch, which otherwise fails with code 1.
    MustBeFreed = 0,
    /// The next launch frees them. Source: `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
    FreedOnLaunch = 1,
}

/// Captured work. Its nodes hold device addresses and kernels, which must outlive every launch.
#[derive(Debug)]
pub struct Graph {
    raw: CUgraph,
}

impl Graph {
    /// Number of nodes: kernels, copies, sets, allocations and frees.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn node_count(&self) -> Result<usize> {
        let mut count = 0;
        // SAFETY: the handle is live, and without a place for nodes only their number is returned.
        let code = unsafe { api::cuGraphGetNodes(self.raw, std::ptr::null_mut(), &raw mut count) };
        check(Function::cuGraphGetNodes, code)?;
        Ok(count)
    }

    /// Makes the graph executable. It takes no graph memory yet.
    ///
    /// # Errors
    ///
    /// The driver's refusal; code 801 for a graph that allocates and is executable already.
    pub fn instantiate(&self, unfreed: Unfreed) -> Result<GraphExec> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the handle is live and `raw` is a valid place for one.
        let code = unsafe { api::cuGraphInstantiateWithFlags(&raw mut raw, self.raw, unfreed as u64) };
        check(Function::cuGraphInstantiateWithFlags, code)?;
        Ok(GraphExec { raw })
    }

    fn destroy(&mut self) -> Result<()> {
        let raw = std::mem::replace(&mut self.raw, std::ptr::null_mut());
        if raw.is_null() {
            return Ok(());
        }
        // SAFETY: the handle was live and is forgotten.
        check(Function::cuGraphDestroy, unsafe { api::cuGraphDestroy(raw) })
    }

    /// Destroys the graph; what was made executable of it stays so.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn close(mut self) -> Result<()> {
        self.destroy()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        report_failed_drop("graph", self.destroy());
    }
}

/// A graph that can be launched.
#[derive(Debug)]
pub struct GraphExec {
    raw: CUgraphExec,
}

impl GraphExec {
    /// Gives the graph its memory ahead of the first launch, in stream order.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn upload(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both handles are live.
        check(Function::cuGraphUpload, unsafe {
            api::cuGraphUpload(self.raw, stream.raw())
        })
    }

    /// Submits the graph's work to a stream, in one call.
    ///
    /// # Errors
    ///
    /// The driver's refusal; code 1 while an allocation of the last launch is not freed.
    #[inline]
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both handles are live.
        check(Function::cuGraphLaunch, unsafe {
            api::cuGraphLaunch(self.raw, stream.raw())
        })
    }

    fn destroy(&mut self) -> Result<()> {
        let raw = std::mem::replace(&mut self.raw, std::ptr::null_mut());
        if raw.is_null() {
            return Ok(());
        }
        // SAFETY: the handle was live and is forgotten.
        check(Function::cuGraphExecDestroy, unsafe { api::cuGraphExecDestroy(raw) })
    }

    /// Destroys the executable graph. Launches still run to their end, and its memory stays with the
    /// device until [`Device::trim_graph_memory`].
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn close(mut self) -> Result<()> {
        self.destroy()
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        report_failed_drop("executable graph", self.destroy());
    }
}

/// The memory of all graphs of a device, in bytes; no memory pool counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphMemory {
    /// What graphs use.
    pub used_bytes_current: u64,
    /// High watermark of `used_bytes_current` since its reset.
    pub used_bytes_high: u64,
    /// What is held of the operating system's memory.
    pub reserved_bytes_current: u64,
    /// High watermark of `reserved_bytes_current` since its reset.
    pub reserved_bytes_high: u64,
}

/// Source: `CUgraphMem_attribute`.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Attribute {
    UsedCurrent = 0,
    UsedHigh = 1,
    ReservedCurrent = 2,
    ReservedHigh = 3,
}

impl Device {
    /// What the graphs of the device hold.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn graph_memory(&self) -> Result<GraphMemory> {
        let read = |attribute: Attribute| {
            let mut value = 0_u64;
            // SAFETY: `value` is a valid place for the 64 bits that every attribute has.
            let code = unsafe {
                api::cuDeviceGetGraphMemAttribute(self.raw(), attribute as u32, (&raw mut value).cast::<c_void>())
            };
            check(Function::cuDeviceGetGraphMemAttribute, code).map(|()| value)
        };
        Ok(GraphMemory {
            used_bytes_current: read(Attribute::UsedCurrent)?,
            used_bytes_high: read(Attribute::UsedHigh)?,
            reserved_bytes_current: read(Attribute::ReservedCurrent)?,
            reserved_bytes_high: read(Attribute::ReservedHigh)?,
        })
    }

    /// Gives back the memory of graphs that neither run nor have an allocation that nobody freed. A
    /// graph that can still be launched takes memory again at its next launch.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn trim_graph_memory(&self) -> Result<()> {
        // SAFETY: the call takes only the device.
        check(Function::cuDeviceGraphMemTrim, unsafe {
            api::cuDeviceGraphMemTrim(self.raw())
        })
    }

    /// Resets both high watermarks of graph memory to what is current.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn reset_graph_memory_high_watermarks(&self) -> Result<()> {
        for attribute in [Attribute::UsedHigh, Attribute::ReservedHigh] {
            let mut zero = 0_u64;
            // SAFETY: the value has the 64 bits that the attribute takes.
            let code = unsafe {
                api::cuDeviceSetGraphMemAttribute(self.raw(), attribute as u32, (&raw mut zero).cast::<c_void>())
            };
            check(Function::cuDeviceSetGraphMemAttribute, code)?;
        }
        Ok(())
    }
}
