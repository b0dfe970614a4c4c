// One fault of each kind that compute-sanitizer is asked to look for, so that its silence about the benches means
// something: sanitize.py runs them all.
//
// Build: nvcc -O2 -std=c++17 -lineinfo -gencode arch=compute_75,code=compute_75 -o planted_faults benches/peer/planted_faults.cu
// Run:   compute-sanitizer [options] ./planted_faults FAULT

#include "check.cuh"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kLength = 1024;
constexpr size_t kBytes = kLength * sizeof(float);

__global__ void copy(float* to, const float* from, size_t length) {
    const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length) to[i] = from[i];
}

// No barrier between the writes and the reads of other threads' elements.
__global__ void reverse_without_barrier(float* values) {
    __shared__ float shared[256];
    shared[threadIdx.x] = values[threadIdx.x];
    values[threadIdx.x] = shared[255 - threadIdx.x];
}

float* set_buffer() {
    float* pointer = nullptr;
    CHECK(cudaMalloc(&pointer, kBytes));
    CHECK(cudaMemset(pointer, 0, kBytes));
    return pointer;
}

void out_of_bounds() {
    float *to = set_buffer(), *from = set_buffer();
    copy<<<5, 256>>>(to, from, kLength + 256);
    cudaDeviceSynchronize();
}

void leak() { set_buffer(); }

void race() {
    float* values = set_buffer();
    reverse_without_barrier<<<1, 256>>>(values);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(values));
}

void uninitialised() {
    float *to = set_buffer(), *from = nullptr;
    CHECK(cudaMalloc(&from, kBytes));
    copy<<<4, 256>>>(to, from, kLength);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
}

void uninitialised_from_pool() {
    float *to = set_buffer(), *from = nullptr;
    CHECK(cudaMallocAsync(&from, kBytes, cudaStreamPerThread));
    copy<<<4, 256, 0, cudaStreamPerThread>>>(to, from, kLength);
    CHECK(cudaFreeAsync(from, cudaStreamPerThread));
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    CHECK(cudaFree(to));
}

// In both, the calls come in the right order, so that memcheck knows the memory at the kernel's launch and only the
// order of the streams is amiss.
void use_before_alloc() {
    float *from = set_buffer(), *to = nullptr;
    cudaStream_t a, b;
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(cudaMallocAsync(&to, kBytes, a));
    copy<<<4, 256, 0, b>>>(to, from, kLength);
    cudaDeviceSynchronize();
    CHECK(cudaFreeAsync(to, a));
    CHECK(cudaStreamSynchronize(a));
    CHECK(cudaFree(from));
}

void use_after_free() {
    float *from = set_buffer(), *to = nullptr;
    cudaStream_t a, b;
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(cudaMallocAsync(&to, kBytes, a));
    CHECK(cudaStreamSynchronize(a));
    copy<<<4, 256, 0, b>>>(to, from, kLength);
    CHECK(cudaFreeAsync(to, a));
    cudaDeviceSynchronize();
    CHECK(cudaFree(from));
}

struct Fault {
    const char* name;
    void (*run)();
};

constexpr Fault kFaults[] = {{"out_of_bounds", out_of_bounds},
                             {"leak", leak},
                             {"race", race},
                             {"uninitialised", uninitialised},
                             {"uninitialised_from_pool", uninitialised_from_pool},
                             {"use_before_alloc", use_before_alloc},
                             {"use_after_free", use_after_free}};

}  // namespace

int main(int argc, char** argv) {
    for (const Fault& fault : kFaults) {
        if (argc != 2 || std::strcmp(argv[1], fault.name) != 0) continue;
        fault.run();
        // The context ends in order, so that what is left is a leak.
        cudaDeviceReset();
        return 0;
    }
    std::fprintf(stderr, "planted_faults: one of");
    for (const Fault& fault : kFaults) std::fprintf(stderr, " %s", fault.name);
    std::fprintf(stderr, "\n");
    return 2;
}
