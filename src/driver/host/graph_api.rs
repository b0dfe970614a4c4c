//! Capture and graphs behind the driver's signatures.

use super::api::{answer, handle, number, only_device, put};
use super::device::DEVICE;
use crate::driver::Code;
use cust::sys::{CUdevice, CUgraph, CUgraphExec, CUgraphNode, CUstream};
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

implement! {
    cuStreamBeginCapture_v2, cuStreamEndCapture, cuStreamIsCapturing,
    cuGraphGetNodes, cuGraphInstantiate_v2, cuGraphInstantiateWithFlags, cuGraphUpload, cuGraphLaunch,
    cuGraphExecDestroy, cuGraphDestroy,
    cuDeviceGraphMemTrim, cuDeviceGetGraphMemAttribute, cuDeviceSetGraphMemAttribute,
}

unsafe extern "C" fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint) -> c_int {
    answer(DEVICE.begin_capture(number(stream), mode))
}

unsafe extern "C" fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> c_int {
    if graph.is_null() {
        return Code::INVALID_VALUE.0;
    }
    let ended = DEVICE.end_capture(number(stream));
    // A capture that was invalidated leaves no graph.
    // SAFETY: the caller's pointer, not null.
    unsafe { graph.write(handle(ended.unwrap_or(0))) };
    answer(ended.map(drop))
}

unsafe extern "C" fn cuStreamIsCapturing(stream: CUstream, status: *mut c_uint) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { put(status, DEVICE.capture_status(number(stream))) }
}

unsafe extern "C" fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) -> c_int {
    if !nodes.is_null() {
        // Nodes have no handles here; only their number is known.
        return Code::NOT_SUPPORTED.0;
    }
    // SAFETY: the caller's pointer.
    unsafe { put(count, DEVICE.graph_node_count(number(graph))) }
}

unsafe extern "C" fn cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) -> c_int {
    if exec.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: the caller's pointer.
    unsafe { put(exec, DEVICE.instantiate_graph(number(graph), flags).map(handle)) }
}

unsafe extern "C" fn cuGraphInstantiate_v2(
    exec: *mut CUgraphExec,
    graph: CUgraph,
    _error_node: *mut CUgraphNode,
    _log: *mut c_char,
    _log_bytes: usize,
) -> c_int {
    // SAFETY: the same arguments.
    unsafe { cuGraphInstantiateWithFlags(exec, graph, 0) }
}

unsafe extern "C" fn cuGraphUpload(exec: CUgraphExec, stream: CUstream) -> c_int {
    answer(DEVICE.upload_graph(number(exec), number(stream)))
}

unsafe extern "C" fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) -> c_int {
    answer(DEVICE.launch_graph(number(exec), number(stream)))
}

unsafe extern "C" fn cuGraphExecDestroy(exec: CUgraphExec) -> c_int {
    answer(DEVICE.destroy_graph_exec(number(exec)))
}

unsafe extern "C" fn cuGraphDestroy(graph: CUgraph) -> c_int {
    answer(DEVICE.destroy_graph(number(graph)))
}

unsafe extern "C" fn cuDeviceGraphMemTrim(device: CUdevice) -> c_int {
    answer(only_device(device).map(|()| DEVICE.trim_graph_memory()))
}

unsafe extern "C" fn cuDeviceGetGraphMemAttribute(device: CUdevice, attribute: c_uint, value: *mut c_void) -> c_int {
    let read = only_device(device).and_then(|()| DEVICE.graph_memory_attribute(attribute));
    // SAFETY: the caller's pointer is to 64 bits, as every attribute demands.
    unsafe { put(value.cast::<u64>(), read) }
}

unsafe extern "C" fn cuDeviceSetGraphMemAttribute(device: CUdevice, attribute: c_uint, value: *mut c_void) -> c_int {
    if value.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: not null, so a pointer to 64 bits, as every attribute demands.
    let wanted = unsafe { value.cast::<u64>().read() };
    answer(only_device(device).and_then(|()| DEVICE.set_graph_memory_attribute(attribute, wanted)))
}
