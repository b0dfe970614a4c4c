// Holds a GPU's memory, so that another process finds little of it: plain allocations, which nobody touches.
//
// Build: nvcc -O2 -std=c++17 -o memory_holder benches/peer/memory_holder.cu
// Run:   ./memory_holder
//
// Each line of standard input is a number of MiB to leave free, or `half` of the device's memory; the answer is a
// line `holding BYTES, free BYTES, total BYTES`, once that is so. The end of the input gives everything back.

#include "check.cuh"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

struct Block {
    void* pointer;
    size_t bytes;
};

constexpr size_t kMiB = 1ull << 20;
// The driver hands memory out in pages of 2 MiB.
constexpr size_t kSteps[] = {1024 * kMiB, 64 * kMiB, 2 * kMiB};

size_t free_bytes(size_t* total = nullptr) {
    size_t free = 0, all = 0;
    CHECK(cudaMemGetInfo(&free, &all));
    if (total) *total = all;
    return free;
}

// What the driver refuses is not there to be held: a smaller step follows, or none.
bool take(std::vector<Block>& held, size_t bytes) {
    void* pointer = nullptr;
    if (cudaMalloc(&pointer, bytes) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    held.push_back({pointer, bytes});
    return true;
}

void leave(std::vector<Block>& held, size_t wanted) {
    while (!held.empty() && free_bytes() < wanted) {
        CHECK(cudaFree(held.back().pointer));
        held.pop_back();
    }
    for (const size_t step : kSteps) {
        while (free_bytes() >= wanted + step && take(held, step)) {
        }
    }
}

}  // namespace

int main() {
    std::vector<Block> held;
    char line[64];
    while (std::fgets(line, sizeof line, stdin)) {
        size_t total = 0;
        free_bytes(&total);
        const bool half = std::strncmp(line, "half", 4) == 0;
        char* end = nullptr;
        const size_t wanted = half ? total / 2 : std::strtoull(line, &end, 10) * kMiB;
        if (!half && end == line) {
            std::fprintf(stderr, "memory_holder: not a number of MiB, nor half: %s", line);
            return 2;
        }
        leave(held, wanted);
        size_t holding = 0;
        for (const Block& block : held) holding += block.bytes;
        std::printf("holding %zu, free %zu, total %zu\n", holding, free_bytes(), total);
        std::fflush(stdout);
    }
    for (const Block& block : held) CHECK(cudaFree(block.pointer));
    return 0;
}
