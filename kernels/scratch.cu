// The two kernels of the scratch loop.
//
// Both move 16 bytes a thread and access, one thread per group of four elements, so that they run at
// the rate of a device copy: a slow kernel would hide what the allocator costs. Up to three elements
// are left over; one thread each takes them (thread `groups` takes element 4 * groups, and so on).
// Launch length / 4 + length % 4 threads or more. Pointers must be aligned to 16 bytes.
//
// Multiplication and addition stand in separate kernels, so no fused multiply-add can form and the
// result is the same, bit for bit, on every device and on the host.

static __forceinline__ __device__ size_t thread_index() {
    return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// scratch[i] = scale * input[i] for i in [0, length).
extern "C" __global__ void fill(float* __restrict__ scratch, const float* __restrict__ input,
                                size_t length, float scale) {
    const size_t group = thread_index();
    const size_t groups = length / 4;
    if (group < groups) {
        const float4 in = reinterpret_cast<const float4*>(input)[group];
        reinterpret_cast<float4*>(scratch)[group] =
            make_float4(scale * in.x, scale * in.y, scale * in.z, scale * in.w);
    } else if (const size_t i = 3 * groups + group; i < length) {
        scratch[i] = scale * input[i];
    }
}

// output[i] += scratch[i] for i in [0, length).
extern "C" __global__ void accumulate(float* __restrict__ output, const float* __restrict__ scratch,
                                      size_t length) {
    const size_t group = thread_index();
    const size_t groups = length / 4;
    if (group < groups) {
        const float4 in = reinterpret_cast<const float4*>(scratch)[group];
        float4 out = reinterpret_cast<float4*>(output)[group];
        out.x += in.x;
        out.y += in.y;
        out.z += in.z;
        out.w += in.w;
        reinterpret_cast<float4*>(output)[group] = out;
    } else if (const size_t i = 3 * groups + group; i < length) {
        output[i] += scratch[i];
    }
}
