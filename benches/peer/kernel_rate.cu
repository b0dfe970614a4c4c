// How fast the kernels are beside a device copy of the same size: bytes read and written per second.
// A slow kernel would hide what the allocator costs.
//
// Build: nvcc -O3 -std=c++17 -gencode arch=compute_75,code=compute_75 -o kernel_rate benches/peer/kernel_rate.cu
// Run:   ./kernel_rate [MiB]

#include "../../kernels/scratch.cu"
#include "check.cuh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
    const size_t bytes = static_cast<size_t>(argc > 1 ? std::atoi(argv[1]) : 256) << 20;
    const size_t length = bytes / sizeof(float);
    const unsigned blocks = static_cast<unsigned>((length / 4 + length % 4 + 255) / 256);
    float *a, *b;
    cudaStream_t stream;
    cudaEvent_t start, end;
    CHECK(cudaMalloc(&a, bytes));
    CHECK(cudaMalloc(&b, bytes));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaMemsetAsync(a, 1, bytes, stream));
    CHECK(cudaMemsetAsync(b, 1, bytes, stream));
    const char* names[] = {"copy", "fill", "accumulate"};
    const double moved[] = {2.0, 2.0, 3.0};  // buffers read plus buffers written
    constexpr int kRepeats = 20, kRounds = 50;
    std::vector<double> rates[3];
    for (int round = 0; round < kRounds; ++round) {
        for (int kind = 0; kind < 3; ++kind) {
            CHECK(cudaEventRecord(start, stream));
            for (int i = 0; i < kRepeats; ++i) {
                if (kind == 0) CHECK(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, stream));
                if (kind == 1) fill<<<blocks, 256, 0, stream>>>(b, a, length, 1.5f);
                if (kind == 2) accumulate<<<blocks, 256, 0, stream>>>(b, a, length);
            }
            CHECK(cudaEventRecord(end, stream));
            CHECK(cudaEventSynchronize(end));
            float milliseconds = 0;
            CHECK(cudaEventElapsedTime(&milliseconds, start, end));
            rates[kind].push_back(moved[kind] * static_cast<double>(bytes) * kRepeats / milliseconds / 1e9);
        }
    }
    for (auto& rate : rates) std::sort(rate.begin(), rate.end());
    for (int kind = 0; kind < 3; ++kind)
        std::printf("%s,%zu MiB,%.3f TB/s,%.4f of copy\n", names[kind], bytes >> 20, rates[kind][kRounds / 2],
                    rates[kind][kRounds / 2] / rates[0][kRounds / 2]);
    return 0;
}
