// The suite's loops over the CUDA runtime, as a C++ programmer would write them: what poolbench's
// harness is measured against. Same kernels, loops, sizes and check; prints `id,median_ns` lines.
//
// Build: nvcc -O3 -std=c++17 -gencode arch=compute_75,code=compute_75 -o peer benches/peer/peer.cu
// Run:   ./peer [milliseconds of warm-up] [milliseconds of measurement] [samples] [filter]
//
// The filter is a regular expression that is sought in the ids, as Criterion's is.
//
// PTX for compute_75, like poolbench's, so that both run what the driver's compiler makes of it.

#include "../../kernels/scratch.cu"
#include "check.cuh"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kIterations = 100;
constexpr unsigned kBlockThreads = 256;

struct Size {
    const char* name;
    size_t bytes;
};

constexpr Size kSizes[] = {{"4KiB", 4ull << 10},  {"64KiB", 64ull << 10}, {"1MiB", 1ull << 20},
                           {"8MiB", 8ull << 20},  {"32MiB", 32ull << 20}, {"256MiB", 256ull << 20}};
constexpr Size kVariableSizes[] = {{"64KiB", 64ull << 10}, {"1MiB", 1ull << 20}, {"8MiB", 8ull << 20},
                                   {"64MiB", 64ull << 20}};
constexpr size_t kVariableSizeMin = 256;
constexpr uint64_t kVariableSizeSeed = 2026;

enum class Strategy { hoisted, sync, stream_ordered, owned_pool };
constexpr Strategy kStrategies[] = {Strategy::hoisted, Strategy::sync, Strategy::stream_ordered,
                                    Strategy::owned_pool};
constexpr const char* kStrategyNames[] = {"hoisted", "sync", "stream_ordered", "owned_pool"};
constexpr Strategy kCapturable[] = {Strategy::hoisted, Strategy::stream_ordered};

const char* name_of(Strategy strategy) { return kStrategyNames[static_cast<int>(strategy)]; }

struct Options {
    double warm_up_s;
    double measurement_s;
    int samples;
    std::regex filter;
};

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sizes drawn log-uniformly with SplitMix64, as poolbench draws them.
std::vector<size_t> drawn_lengths(size_t max_bytes) {
    uint64_t state = kVariableSizeSeed;
    std::vector<size_t> lengths;
    const double low = std::log(static_cast<double>(kVariableSizeMin));
    const double high = std::log(static_cast<double>(max_bytes));
    for (int i = 0; i < kIterations; ++i) {
        uint64_t z = (state += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        const double uniform = static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
        const double bytes = std::round(std::exp(low + (high - low) * uniform));
        const size_t drawn = std::min(std::max(static_cast<size_t>(bytes), kVariableSizeMin), max_bytes);
        lengths.push_back(drawn / sizeof(float));
    }
    return lengths;
}

class Loop {
public:
    Loop(Strategy strategy, size_t max_bytes, std::vector<size_t> lengths)
        : strategy_(strategy), max_length_(max_bytes / sizeof(float)), lengths_(std::move(lengths)) {
        if (strategy == Strategy::owned_pool) {
            cudaMemPoolProps properties = {};
            properties.allocType = cudaMemAllocationTypePinned;
            properties.location.type = cudaMemLocationTypeDevice;
            CHECK(cudaMemPoolCreate(&pool_, &properties));
        } else {
            CHECK(cudaDeviceGetDefaultMemPool(&pool_, 0));
        }
        uint64_t threshold = UINT64_MAX;
        CHECK(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold));
        CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        CHECK(cudaMalloc(&input_, max_bytes));
        CHECK(cudaMalloc(&output_, max_bytes));
        if (strategy == Strategy::hoisted) CHECK(cudaMalloc(&hoisted_, max_bytes));
        uint32_t state = 12345;
        for (size_t i = 0; i < max_length_; ++i) {
            state = state * 1664525u + 1013904223u;
            host_input_.push_back(static_cast<float>(1 + (state >> 29)));
        }
        CHECK(cudaMemcpy(input_, host_input_.data(), max_bytes, cudaMemcpyHostToDevice));
    }

    ~Loop() {
        if (graph_exec_) CHECK(cudaGraphExecDestroy(graph_exec_));
        if (graph_) CHECK(cudaGraphDestroy(graph_));
        if (hoisted_) CHECK(cudaFree(hoisted_));
        CHECK(cudaFree(output_));
        CHECK(cudaFree(input_));
        CHECK(cudaStreamSynchronize(stream_));
        CHECK(cudaStreamDestroy(stream_));
        if (strategy_ == Strategy::owned_pool) CHECK(cudaMemPoolDestroy(pool_));
        else CHECK(cudaMemPoolTrimTo(pool_, 0));
        CHECK(cudaDeviceGraphMemTrim(0));
    }

    // Captures the loop; from now on it is replayed.
    void capture() {
        CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
        submit();
        CHECK(cudaStreamEndCapture(stream_, &graph_));
        CHECK(cudaGraphInstantiate(&graph_exec_, graph_, 0));
    }

    void run() const {
        if (graph_exec_) CHECK(cudaGraphLaunch(graph_exec_, stream_));
        else submit();
        CHECK(cudaStreamSynchronize(stream_));
    }

    // One more loop from a zeroed output: each element holds the scales of the iterations that reach
    // it, exactly.
    void check() const {
        CHECK(cudaMemsetAsync(output_, 0, max_length_ * sizeof(float), stream_));
        run();
        std::vector<float> output(max_length_);
        CHECK(cudaMemcpy(output.data(), output_, max_length_ * sizeof(float), cudaMemcpyDeviceToHost));
        std::vector<float> factor(max_length_ + 1, 0.0f);
        for (int i = 0; i < kIterations; ++i) factor[lengths_[i] - 1] += static_cast<float>(1 + i % 4);
        for (size_t i = max_length_; i-- > 0;) factor[i] += factor[i + 1];
        for (size_t i = 0; i < max_length_; ++i) {
            if (output[i] == factor[i] * host_input_[i]) continue;
            std::fprintf(stderr, "peer: element %zu is %g, not %g\n", i, output[i], factor[i] * host_input_[i]);
            std::exit(3);
        }
        CHECK(cudaMemsetAsync(output_, 0, max_length_ * sizeof(float), stream_));
        CHECK(cudaStreamSynchronize(stream_));
    }

    // The median time of an iteration in nanoseconds, over samples of whole loops.
    double measure(const Options& options) const {
        const Clock::time_point warm_up = Clock::now();
        int warm_loops = 0;
        do {
            run();
            ++warm_loops;
        } while (seconds_since(warm_up) < options.warm_up_s);
        const double loop_s = seconds_since(warm_up) / warm_loops;
        const int loops = std::max(1, static_cast<int>(std::ceil(options.measurement_s / options.samples / loop_s)));
        std::vector<double> times;
        for (int sample = 0; sample < options.samples; ++sample) {
            const Clock::time_point start = Clock::now();
            for (int i = 0; i < loops; ++i) run();
            times.push_back(seconds_since(start) / loops / kIterations * 1e9);
        }
        std::sort(times.begin(), times.end());
        const size_t middle = times.size() / 2;
        return times.size() % 2 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
    }

private:
    void submit() const {
        for (int i = 0; i < kIterations; ++i) {
            const size_t length = lengths_[i];
            const size_t threads = std::max<size_t>(length / 4 + length % 4, 1);
            const unsigned blocks = static_cast<unsigned>((threads + kBlockThreads - 1) / kBlockThreads);
            float* scratch = allocate(length * sizeof(float));
            fill<<<blocks, kBlockThreads, 0, stream_>>>(scratch, input_, length, static_cast<float>(1 + i % 4));
            CHECK(cudaGetLastError());
            accumulate<<<blocks, kBlockThreads, 0, stream_>>>(output_, scratch, length);
            CHECK(cudaGetLastError());
            release(scratch);
        }
    }

    float* allocate(size_t bytes) const {
        void* pointer = hoisted_;
        switch (strategy_) {
            case Strategy::hoisted: break;
            case Strategy::sync: CHECK(cudaMalloc(&pointer, bytes)); break;
            case Strategy::stream_ordered: CHECK(cudaMallocAsync(&pointer, bytes, stream_)); break;
            case Strategy::owned_pool: CHECK(cudaMallocFromPoolAsync(&pointer, bytes, pool_, stream_)); break;
        }
        return static_cast<float*>(pointer);
    }

    void release(float* pointer) const {
        switch (strategy_) {
            case Strategy::hoisted: break;
            case Strategy::sync: CHECK(cudaFree(pointer)); break;
            case Strategy::stream_ordered:
            case Strategy::owned_pool: CHECK(cudaFreeAsync(pointer, stream_)); break;
        }
    }

    Strategy strategy_;
    size_t max_length_;
    std::vector<size_t> lengths_;
    std::vector<float> host_input_;
    cudaStream_t stream_ = nullptr;
    cudaMemPool_t pool_ = nullptr;
    cudaGraph_t graph_ = nullptr;
    cudaGraphExec_t graph_exec_ = nullptr;
    float* hoisted_ = nullptr;
    float* input_ = nullptr;
    float* output_ = nullptr;
};

void measure_case(const std::string& id, Loop& loop, const Options& options) {
    loop.check();
    const double median_ns = loop.measure(options);
    loop.check();
    std::printf("%s,%.3f\n", id.c_str(), median_ns);
    std::fflush(stdout);
}

std::regex filter_of(const char* text) {
    try {
        return std::regex(text);
    } catch (const std::regex_error& error) {
        std::fprintf(stderr, "peer: the filter %s is no regular expression: %s\n", text, error.what());
        std::exit(2);
    }
}

bool wanted(const std::string& id, const Options& options) {
    return std::regex_search(id, options.filter);
}

}  // namespace

int main(int argc, char** argv) {
    const auto number = [&](int index, double otherwise) {
        return argc > index ? std::atof(argv[index]) : otherwise;
    };
    const Options options = {number(1, 500) / 1e3, number(2, 2000) / 1e3, static_cast<int>(number(3, 50)),
                             filter_of(argc > 4 ? argv[4] : "")};
    const auto constant = [](const Size& size) {
        return std::vector<size_t>(kIterations, size.bytes / sizeof(float));
    };
    for (const Size& size : kSizes) {
        for (Strategy strategy : kStrategies) {
            const std::string id = std::string("scratch_loop/") + name_of(strategy) + "/" + size.name;
            if (!wanted(id, options)) continue;
            Loop loop(strategy, size.bytes, constant(size));
            measure_case(id, loop, options);
        }
        for (Strategy strategy : kCapturable) {
            const std::string id = std::string("graph_replay/") + name_of(strategy) + ",graph/" + size.name;
            if (!wanted(id, options)) continue;
            Loop loop(strategy, size.bytes, constant(size));
            loop.capture();
            measure_case(id, loop, options);
        }
    }
    for (const Size& size : kVariableSizes) {
        for (Strategy strategy : kStrategies) {
            const std::string id = std::string("variable_size/") + name_of(strategy) + "/" + size.name;
            if (!wanted(id, options)) continue;
            Loop loop(strategy, size.bytes, drawn_lengths(size.bytes));
            measure_case(id, loop, options);
        }
    }
    return 0;
}
