//! Every driver function that poolbench or cust calls, declared once.
//!
//! Names and signatures are those of cust_raw 0.11.3 (the CUDA 11.4 headers), except that results and
//! enum arguments are integers: the Rust enums lack newer codes, and a value that an enum lacks is
//! undefined behaviour. `driver_functions!` makes the table, the symbols that cust
//! links against and the call log's entries from this list.

use super::table::driver_functions;
use cust::sys::*;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

driver_functions! {
    cuArray3DCreate_v2(p_handle: *mut CUarray, p_allocate_array: *const CUDA_ARRAY3D_DESCRIPTOR);
    cuArray3DGetDescriptor_v2(p_array_descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, h_array: CUarray);
    cuArrayDestroy(h_array: CUarray);
    cuCtxCreate_v2(pctx: *mut CUcontext, flags: c_uint, dev: CUdevice);
    cuCtxDestroy_v2(ctx: CUcontext);
    cuCtxGetApiVersion(ctx: CUcontext, version: *mut c_uint);
    cuCtxGetCacheConfig(pconfig: *mut c_uint);
    cuCtxGetCurrent(pctx: *mut CUcontext);
    cuCtxGetDevice(device: *mut CUdevice);
    cuCtxGetFlags(flags: *mut c_uint);
    cuCtxGetLimit(pvalue: *mut usize, limit: c_uint);
    cuCtxGetSharedMemConfig(p_config: *mut c_uint);
    cuCtxGetStreamPriorityRange(least_priority: *mut c_int, greatest_priority: *mut c_int);
    cuCtxPopCurrent_v2(pctx: *mut CUcontext);
    cuCtxPushCurrent_v2(ctx: CUcontext);
    cuCtxSetCacheConfig(config: c_uint);
    cuCtxSetCurrent(ctx: CUcontext);
    cuCtxSetLimit(limit: c_uint, value: usize);
    cuCtxSetSharedMemConfig(config: c_uint);
    cuCtxSynchronize();
    cuDestroyExternalMemory(ext_mem: CUexternalMemory);
    cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    cuDeviceGetAttribute(pi: *mut c_int, attrib: c_uint, dev: CUdevice);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGetDefaultMemPool(pool_out: *mut CUmemoryPool, dev: CUdevice);
    cuDeviceGetGraphMemAttribute(device: CUdevice, attr: c_uint, value: *mut c_void);
    cuDeviceGetMemPool(pool: *mut CUmemoryPool, dev: CUdevice);
    cuDeviceGetName(name: *mut c_char, len: c_int, dev: CUdevice);
    cuDeviceGetUuid(uuid: *mut CUuuid, dev: CUdevice);
    cuDeviceGraphMemTrim(device: CUdevice);
    cuDevicePrimaryCtxRelease_v2(dev: CUdevice);
    cuDevicePrimaryCtxReset_v2(dev: CUdevice);
    cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice);
    cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: c_uint);
    cuDeviceSetGraphMemAttribute(device: CUdevice, attr: c_uint, value: *mut c_void);
    cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool);
    cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice);
    cuDriverGetVersion(driver_version: *mut c_int);
    cuEventCreate(ph_event: *mut CUevent, flags: c_uint);
    cuEventDestroy_v2(h_event: CUevent);
    cuEventElapsedTime(p_milliseconds: *mut f32, h_start: CUevent, h_end: CUevent);
    cuEventQuery(h_event: CUevent);
    cuEventRecord(h_event: CUevent, h_stream: CUstream);
    cuEventSynchronize(h_event: CUevent);
    cuExternalMemoryGetMappedBuffer(dev_ptr: *mut CUdeviceptr, ext_mem: CUexternalMemory, buffer_desc: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
    cuFuncGetAttribute(pi: *mut c_int, attrib: c_uint, hfunc: CUfunction);
    cuFuncSetCacheConfig(hfunc: CUfunction, config: c_uint);
    cuFuncSetSharedMemConfig(hfunc: CUfunction, config: c_uint);
    cuGetErrorName(error: c_uint, p_str: *mut *const c_char);
    cuGetErrorString(error: c_uint, p_str: *mut *const c_char);
    cuGraphAddKernelNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *const CUDA_KERNEL_NODE_PARAMS);
    cuGraphCreate(ph_graph: *mut CUgraph, flags: c_uint);
    cuGraphDebugDotPrint(h_graph: CUgraph, path: *const c_char, flags: c_uint);
    cuGraphDestroy(h_graph: CUgraph);
    cuGraphExecDestroy(h_graph_exec: CUgraphExec);
    cuGraphGetEdges(h_graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, num_edges: *mut usize);
    cuGraphGetNodes(h_graph: CUgraph, nodes: *mut CUgraphNode, num_nodes: *mut usize);
    cuGraphInstantiateWithFlags(ph_graph_exec: *mut CUgraphExec, h_graph: CUgraph, flags: c_ulonglong);
    cuGraphInstantiate_v2(ph_graph_exec: *mut CUgraphExec, h_graph: CUgraph, ph_error_node: *mut CUgraphNode, log_buffer: *mut c_char, buffer_size: usize);
    cuGraphKernelNodeGetParams(h_node: CUgraphNode, node_params: *mut CUDA_KERNEL_NODE_PARAMS);
    cuGraphLaunch(h_graph_exec: CUgraphExec, h_stream: CUstream);
    cuGraphNodeGetType(h_node: CUgraphNode, kind: *mut c_uint);
    cuGraphUpload(h_graph_exec: CUgraphExec, h_stream: CUstream);
    cuImportExternalMemory(ext_mem_out: *mut CUexternalMemory, mem_handle_desc: *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
    cuInit(flags: c_uint);
    cuLaunchHostFunc(h_stream: CUstream, callback: CUhostFn, user_data: *mut c_void);
    cuLaunchKernel(f: CUfunction, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint, block_dim_x: c_uint, block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint, h_stream: CUstream, kernel_params: *mut *mut c_void, extra: *mut *mut c_void);
    cuLinkAddData_v2(state: CUlinkState, kind: c_uint, data: *mut c_void, size: usize, name: *const c_char, num_options: c_uint, options: *mut c_uint, option_values: *mut *mut c_void);
    cuLinkComplete(state: CUlinkState, cubin_out: *mut *mut c_void, size_out: *mut usize);
    cuLinkCreate_v2(num_options: c_uint, options: *mut c_uint, option_values: *mut *mut c_void, state_out: *mut CUlinkState);
    cuLinkDestroy(state: CUlinkState);
    cuMemAddressFree(ptr: CUdeviceptr, size: usize);
    cuMemAddressReserve(ptr: *mut CUdeviceptr, size: usize, alignment: usize, addr: CUdeviceptr, flags: c_ulonglong);
    cuMemAdvise(dev_ptr: CUdeviceptr, count: usize, advice: c_uint, device: CUdevice);
    cuMemAllocAsync(dptr: *mut CUdeviceptr, bytesize: usize, h_stream: CUstream);
    cuMemAllocFromPoolAsync(dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, h_stream: CUstream);
    cuMemAllocHost_v2(pp: *mut *mut c_void, bytesize: usize);
    cuMemAllocManaged(dptr: *mut CUdeviceptr, bytesize: usize, flags: c_uint);
    cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytesize: usize);
    cuMemCreate(handle: *mut CUmemGenericAllocationHandle, size: usize, prop: *const CUmemAllocationProp, flags: c_ulonglong);
    cuMemFreeAsync(dptr: CUdeviceptr, h_stream: CUstream);
    cuMemFreeHost(p: *mut c_void);
    cuMemFree_v2(dptr: CUdeviceptr);
    cuMemGetAllocationGranularity(granularity: *mut usize, prop: *const CUmemAllocationProp, option: c_uint);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemMap(ptr: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: c_ulonglong);
    cuMemPoolCreate(pool: *mut CUmemoryPool, pool_props: *const CUmemPoolProps);
    cuMemPoolDestroy(pool: CUmemoryPool);
    cuMemPoolGetAttribute(pool: CUmemoryPool, attr: c_uint, value: *mut c_void);
    cuMemPoolSetAttribute(pool: CUmemoryPool, attr: c_uint, value: *mut c_void);
    cuMemPoolTrimTo(pool: CUmemoryPool, min_bytes_to_keep: usize);
    cuMemPrefetchAsync(dev_ptr: CUdeviceptr, count: usize, dst_device: CUdevice, h_stream: CUstream);
    cuMemRelease(handle: CUmemGenericAllocationHandle);
    cuMemSetAccess(ptr: CUdeviceptr, size: usize, desc: *const CUmemAccessDesc, count: usize);
    cuMemUnmap(ptr: CUdeviceptr, size: usize);
    cuMemcpy2D_v2(p_copy: *const CUDA_MEMCPY2D);
    cuMemcpyAtoH_v2(dst_host: *mut c_void, src_array: CUarray, src_offset: usize, byte_count: usize);
    cuMemcpyDtoDAsync_v2(dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize, h_stream: CUstream);
    cuMemcpyDtoD_v2(dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize);
    cuMemcpyDtoHAsync_v2(dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize, h_stream: CUstream);
    cuMemcpyDtoH_v2(dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize);
    cuMemcpyHtoA_v2(dst_array: CUarray, dst_offset: usize, src_host: *const c_void, byte_count: usize);
    cuMemcpyHtoDAsync_v2(dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize, h_stream: CUstream);
    cuMemcpyHtoD_v2(dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize);
    cuMemsetD16Async(dst_device: CUdeviceptr, us: c_ushort, n: usize, h_stream: CUstream);
    cuMemsetD16_v2(dst_device: CUdeviceptr, us: c_ushort, n: usize);
    cuMemsetD32Async(dst_device: CUdeviceptr, ui: c_uint, n: usize, h_stream: CUstream);
    cuMemsetD32_v2(dst_device: CUdeviceptr, ui: c_uint, n: usize);
    cuMemsetD8Async(dst_device: CUdeviceptr, uc: c_uchar, n: usize, h_stream: CUstream);
    cuMemsetD8_v2(dst_device: CUdeviceptr, uc: c_uchar, n: usize);
    cuModuleGetFunction(hfunc: *mut CUfunction, hmod: CUmodule, name: *const c_char);
    cuModuleGetGlobal_v2(dptr: *mut CUdeviceptr, bytes: *mut usize, hmod: CUmodule, name: *const c_char);
    cuModuleLoad(module: *mut CUmodule, fname: *const c_char);
    cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    cuModuleLoadDataEx(module: *mut CUmodule, image: *const c_void, num_options: c_uint, options: *mut c_uint, option_values: *mut *mut c_void);
    cuModuleUnload(hmod: CUmodule);
    cuOccupancyAvailableDynamicSMemPerBlock(dynamic_smem_size: *mut usize, func: CUfunction, num_blocks: c_int, block_size: c_int);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(num_blocks: *mut c_int, func: CUfunction, block_size: c_int, dynamic_smem_size: usize);
    cuOccupancyMaxPotentialBlockSize(min_grid_size: *mut c_int, block_size: *mut c_int, func: CUfunction, block_size_to_dynamic_smem_size: CUoccupancyB2DSize, dynamic_smem_size: usize, block_size_limit: c_int);
    cuStreamBeginCapture_v2(h_stream: CUstream, mode: c_uint);
    cuStreamCreate(ph_stream: *mut CUstream, flags: c_uint);
    cuStreamCreateWithPriority(ph_stream: *mut CUstream, flags: c_uint, priority: c_int);
    cuStreamDestroy_v2(h_stream: CUstream);
    cuStreamEndCapture(h_stream: CUstream, ph_graph: *mut CUgraph);
    cuStreamGetFlags(h_stream: CUstream, flags: *mut c_uint);
    cuStreamGetPriority(h_stream: CUstream, priority: *mut c_int);
    cuStreamIsCapturing(h_stream: CUstream, capture_status: *mut c_uint);
    cuStreamQuery(h_stream: CUstream);
    cuStreamSynchronize(h_stream: CUstream);
    cuStreamWaitEvent(h_stream: CUstream, h_event: CUevent, flags: c_uint);
    cuSurfObjectCreate(p_surf_object: *mut CUsurfObject, p_res_desc: *const CUDA_RESOURCE_DESC);
    cuSurfObjectDestroy(surf_object: CUsurfObject);
    cuSurfObjectGetResourceDesc(p_res_desc: *mut CUDA_RESOURCE_DESC, surf_object: CUsurfObject);
    cuTexObjectCreate(p_tex_object: *mut CUtexObject, p_res_desc: *const CUDA_RESOURCE_DESC, p_tex_desc: *const CUDA_TEXTURE_DESC, p_res_view_desc: *const CUDA_RESOURCE_VIEW_DESC);
    cuTexObjectDestroy(tex_object: CUtexObject);
    cuTexObjectGetResourceDesc(p_res_desc: *mut CUDA_RESOURCE_DESC, tex_object: CUtexObject);
    cuTexObjectGetResourceViewDesc(p_res_view_desc: *mut CUDA_RESOURCE_VIEW_DESC, tex_object: CUtexObject);
}

impl Function {
    /// Whether the function gives back what another one made: memory, a handle, the context.
    #[must_use]
    pub const fn releases(self) -> bool {
        matches!(
            self,
            Function::cuArrayDestroy
                | Function::cuCtxDestroy_v2
                | Function::cuDestroyExternalMemory
                | Function::cuDevicePrimaryCtxRelease_v2
                | Function::cuEventDestroy_v2
                | Function::cuGraphDestroy
                | Function::cuGraphExecDestroy
                | Function::cuLinkDestroy
                | Function::cuMemAddressFree
                | Function::cuMemFreeAsync
                | Function::cuMemFreeHost
                | Function::cuMemFree_v2
                | Function::cuMemPoolDestroy
                | Function::cuMemRelease
                | Function::cuMemUnmap
                | Function::cuModuleUnload
                | Function::cuStreamDestroy_v2
                | Function::cuSurfObjectDestroy
                | Function::cuTexObjectDestroy
        )
    }
}
