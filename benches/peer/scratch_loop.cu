// The scratch loop over the CUDA runtime, as a C++ programmer would write it: what poolbench's harness
// is measured against. Same kernels, loop, sizes, input and check; prints `id,median_ns` lines.
//
// Build: nvcc -O3 -std=c++17 -gencode arch=compute_75,code=compute_75 -o peer benches/peer/scratch_loop.cu
// Run:   ./peer [milliseconds of warm-up] [milliseconds of measurement] [samples] [filter]
//
// PTX for compute_75, like poolbench's, so that both run what the driver's compiler makes of it.

#include "../../kernels/scratch.cu"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                                            \
    do {                                                                                       \
        const cudaError_t error = (call);                                                      \
        if (error != cudaSuccess) {                                                            \
            std::fprintf(stderr, "peer: %s: %s\n", #call, cudaGetErrorString(error));          \
            std::exit(3);                                                                      \
        }                                                                                      \
    } while (0)

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kIterations = 100;
constexpr unsigned kBlockThreads = 256;
constexpr size_t kSizes[] = {4ull << 10, 64ull << 10, 1ull << 20, 8ull << 20, 32ull << 20, 256ull << 20};
constexpr const char* kSizeNames[] = {"4KiB", "64KiB", "1MiB", "8MiB", "32MiB", "256MiB"};

enum class Strategy { hoisted, sync, stream_ordered, owned_pool };
constexpr Strategy kStrategies[] = {Strategy::hoisted, Strategy::sync, Strategy::stream_ordered,
                                    Strategy::owned_pool};
constexpr const char* kStrategyNames[] = {"hoisted", "sync", "stream_ordered", "owned_pool"};

struct Options {
    double warm_up_s;
    double measurement_s;
    int samples;
    const char* filter;
};

struct Loop {
    Strategy strategy;
    size_t bytes;
    size_t length;
    cudaStream_t stream;
    cudaMemPool_t pool;
    float* hoisted;
    float* input;
    float* output;

    float* allocate() const {
        void* pointer = hoisted;
        switch (strategy) {
            case Strategy::hoisted: break;
            case Strategy::sync: CHECK(cudaMalloc(&pointer, bytes)); break;
            case Strategy::stream_ordered: CHECK(cudaMallocAsync(&pointer, bytes, stream)); break;
            case Strategy::owned_pool: CHECK(cudaMallocFromPoolAsync(&pointer, bytes, pool, stream)); break;
        }
        return static_cast<float*>(pointer);
    }

    void release(float* pointer) const {
        switch (strategy) {
            case Strategy::hoisted: break;
            case Strategy::sync: CHECK(cudaFree(pointer)); break;
            case Strategy::stream_ordered:
            case Strategy::owned_pool: CHECK(cudaFreeAsync(pointer, stream)); break;
        }
    }

    void run() const {
        const size_t threads = std::max<size_t>(length / 4 + length % 4, 1);
        const unsigned blocks = static_cast<unsigned>((threads + kBlockThreads - 1) / kBlockThreads);
        for (int i = 0; i < kIterations; ++i) {
            float* scratch = allocate();
            fill<<<blocks, kBlockThreads, 0, stream>>>(scratch, input, length, static_cast<float>(1 + i % 4));
            CHECK(cudaGetLastError());
            accumulate<<<blocks, kBlockThreads, 0, stream>>>(output, scratch, length);
            CHECK(cudaGetLastError());
            release(scratch);
        }
        CHECK(cudaStreamSynchronize(stream));
    }
};

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// The median time of an iteration in nanoseconds, over samples of whole loops.
double measure(const Loop& loop, const Options& options) {
    const Clock::time_point warm_up = Clock::now();
    int warm_loops = 0;
    do {
        loop.run();
        ++warm_loops;
    } while (seconds_since(warm_up) < options.warm_up_s);
    const double loop_s = seconds_since(warm_up) / warm_loops;
    const int loops = std::max(1, static_cast<int>(options.measurement_s / options.samples / loop_s));
    std::vector<double> times;
    for (int sample = 0; sample < options.samples; ++sample) {
        const Clock::time_point start = Clock::now();
        for (int i = 0; i < loops; ++i) loop.run();
        times.push_back(seconds_since(start) / loops / kIterations * 1e9);
    }
    std::sort(times.begin(), times.end());
    const size_t middle = times.size() / 2;
    return times.size() % 2 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
}

// One more loop from a zeroed output: the scales of 100 iterations sum to 250, exactly.
void check(const Loop& loop, const std::vector<float>& input) {
    CHECK(cudaMemsetAsync(loop.output, 0, loop.bytes, loop.stream));
    loop.run();
    std::vector<float> output(loop.length);
    CHECK(cudaMemcpy(output.data(), loop.output, loop.bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < loop.length; ++i) {
        if (output[i] != 250.0f * input[i]) {
            std::fprintf(stderr, "peer: element %zu is %g, not %g\n", i, output[i], 250.0f * input[i]);
            std::exit(3);
        }
    }
}

cudaMemPool_t pool_at_max(Strategy strategy) {
    cudaMemPool_t pool;
    if (strategy == Strategy::owned_pool) {
        cudaMemPoolProps properties = {};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location.type = cudaMemLocationTypeDevice;
        CHECK(cudaMemPoolCreate(&pool, &properties));
    } else {
        CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    }
    uint64_t threshold = UINT64_MAX;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    return pool;
}

void measure_case(Strategy strategy, size_t size, const Options& options) {
    const std::string id = std::string("scratch_loop/") + kStrategyNames[static_cast<int>(strategy)] + "/" +
                           kSizeNames[size];
    if (options.filter && id.find(options.filter) == std::string::npos) return;
    Loop loop = {};
    loop.strategy = strategy;
    loop.bytes = kSizes[size];
    loop.length = loop.bytes / sizeof(float);
    loop.pool = pool_at_max(strategy);
    std::vector<float> input(loop.length);
    uint32_t state = 12345;
    for (float& value : input) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<float>(1 + (state >> 29));
    }
    CHECK(cudaStreamCreateWithFlags(&loop.stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&loop.input, loop.bytes));
    CHECK(cudaMalloc(&loop.output, loop.bytes));
    if (strategy == Strategy::hoisted) CHECK(cudaMalloc(&loop.hoisted, loop.bytes));
    CHECK(cudaMemcpy(loop.input, input.data(), loop.bytes, cudaMemcpyHostToDevice));
    check(loop, input);
    CHECK(cudaMemsetAsync(loop.output, 0, loop.bytes, loop.stream));
    const double median_ns = measure(loop, options);
    check(loop, input);
    std::printf("%s,%.3f\n", id.c_str(), median_ns);
    if (strategy == Strategy::hoisted) CHECK(cudaFree(loop.hoisted));
    CHECK(cudaFree(loop.output));
    CHECK(cudaFree(loop.input));
    CHECK(cudaStreamDestroy(loop.stream));
    if (strategy == Strategy::owned_pool) CHECK(cudaMemPoolDestroy(loop.pool));
    else CHECK(cudaMemPoolTrimTo(loop.pool, 0));
}

}  // namespace

int main(int argc, char** argv) {
    const auto number = [&](int index, double otherwise) {
        return argc > index ? std::atof(argv[index]) : otherwise;
    };
    const Options options = {number(1, 500) / 1e3, number(2, 2000) / 1e3, static_cast<int>(number(3, 50)),
                             argc > 4 ? argv[4] : nullptr};
    for (size_t size = 0; size < std::size(kSizes); ++size)
        for (Strategy strategy : kStrategies) measure_case(strategy, size, options);
    return 0;
}
