// Issues the calls of a compiled trace from an array, as bare as a loop can be: what poolbench's replay is
// measured against. The operations are those that `poolbench replay TRACE --dump-operations FILE` writes.
//
// Build: g++ -O3 -std=c++17 -I"$CUDA_HOME/include" -o replay_peer benches/peer/replay_peer.cpp -ldl
// Run:   ./replay_peer OPERATIONS [rounds] [threshold in bytes]
//
// Prints `strategy,events,ns ns ns ...`: per round the time of a replay that follows another, the last
// synchronise included. The driver is bound when the program runs, as poolbench binds it.

#include <cuda.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what, const char* why) {
    std::fprintf(stderr, "replay_peer: %s: %s\n", what, why);
    std::exit(3);
}

void* library() {
    static void* const handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (!handle) fail("libcuda.so.1", dlerror());
    return handle;
}

// cuda.h turns names into versioned ones, so the name is made into text only after that.
#define TEXT(name) #name
#define DRIVER(name, symbol) decltype(&symbol) name = reinterpret_cast<decltype(&symbol)>(bound(TEXT(symbol)))

void* bound(const char* symbol) {
    void* const address = dlsym(library(), symbol);
    if (!address) fail(symbol, "not in the driver");
    return address;
}

struct Driver {
    DRIVER(init, cuInit);
    DRIVER(retain, cuDevicePrimaryCtxRetain);
    DRIVER(set_current, cuCtxSetCurrent);
    DRIVER(synchronize, cuCtxSynchronize);
    DRIVER(stream_create, cuStreamCreate);
    DRIVER(stream_synchronize, cuStreamSynchronize);
    DRIVER(stream_wait_event, cuStreamWaitEvent);
    DRIVER(event_create, cuEventCreate);
    DRIVER(event_record, cuEventRecord);
    DRIVER(alloc, cuMemAlloc);
    DRIVER(free, cuMemFree);
    DRIVER(alloc_async, cuMemAllocAsync);
    DRIVER(free_async, cuMemFreeAsync);
    DRIVER(default_pool, cuDeviceGetDefaultMemPool);
    DRIVER(set_attribute, cuMemPoolSetAttribute);
    DRIVER(trim, cuMemPoolTrimTo);
};

void check(CUresult result, const char* what) {
    if (result == CUDA_SUCCESS) return;
    const std::string code = "error " + std::to_string(static_cast<int>(result));
    fail(what, code.c_str());
}

enum Kind : uint8_t { kAlloc, kFree, kSynchronizeStream, kSynchronizeDevice, kOrder };

struct Operation {
    uint64_t size_bytes;
    uint32_t slot;
    uint8_t stream;
    uint8_t home;
    uint8_t kind;
    uint8_t padding;
};
static_assert(sizeof(Operation) == 16, "as in the file");

struct Header {
    char magic[8];
    uint32_t version;
    uint32_t streams;
    uint32_t slots;
    uint32_t padding;
    uint64_t events;
    uint64_t operations;
    uint64_t leaked;
};
static_assert(sizeof(Header) == 48, "as in the file");

struct Program {
    Header header;
    std::vector<Operation> operations;
    std::vector<Operation> leaked;
};

Program read(const char* path) {
    std::FILE* const file = std::fopen(path, "rb");
    if (!file) fail(path, "cannot be opened");
    Program program = {};
    if (std::fread(&program.header, sizeof(Header), 1, file) != 1) fail(path, "has no header");
    const Header& header = program.header;
    if (std::memcmp(header.magic, "PBREPLAY", 8) != 0 || header.version != 1) fail(path, "is no dump of version 1");
    for (auto [list, count] : {std::pair{&program.operations, header.operations}, {&program.leaked, header.leaked}}) {
        list->resize(count);
        if (count && std::fread(list->data(), sizeof(Operation), count, file) != count) fail(path, "is cut short");
    }
    std::fclose(file);
    return program;
}

enum class Strategy { sync, stream_ordered };

class Replay {
public:
    Replay(const Driver& driver, const Program& program)
        : driver_(driver), program_(program), slots_(program.header.slots), streams_(program.header.streams),
          events_(program.header.streams) {
        for (CUstream& stream : streams_) check(driver_.stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        for (CUevent& event : events_) check(driver_.event_create(&event, 0), "cuEventCreate");
    }

    // The time of one replay in nanoseconds. What the trace leaves live is freed when the clock stands.
    template <Strategy strategy>
    long long run() {
        const auto start = std::chrono::steady_clock::now();
        issue<strategy>(program_.operations);
        check(driver_.synchronize(), "cuCtxSynchronize");
        const auto elapsed = std::chrono::steady_clock::now() - start;
        issue<strategy>(program_.leaked);
        check(driver_.synchronize(), "cuCtxSynchronize");
        return std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
    }

private:
    template <Strategy strategy>
    void issue(const std::vector<Operation>& operations) {
        for (const Operation& operation : operations) {
            CUdeviceptr& block = slots_[operation.slot];
            const CUstream stream = streams_[operation.stream];
            switch (operation.kind) {
                case kAlloc:
                    if constexpr (strategy == Strategy::sync) {
                        check(driver_.alloc(&block, operation.size_bytes), "cuMemAlloc");
                    } else {
                        check(driver_.alloc_async(&block, operation.size_bytes, stream), "cuMemAllocAsync");
                    }
                    break;
                case kFree:
                    if constexpr (strategy == Strategy::sync) {
                        check(driver_.free(block), "cuMemFree");
                    } else {
                        check(driver_.free_async(block, stream), "cuMemFreeAsync");
                    }
                    break;
                case kSynchronizeStream: check(driver_.stream_synchronize(stream), "cuStreamSynchronize"); break;
                case kSynchronizeDevice: check(driver_.synchronize(), "cuCtxSynchronize"); break;
                case kOrder:
                    check(driver_.event_record(events_[operation.home], streams_[operation.home]), "cuEventRecord");
                    check(driver_.stream_wait_event(stream, events_[operation.home], 0), "cuStreamWaitEvent");
                    break;
            }
        }
    }

    const Driver& driver_;
    const Program& program_;
    std::vector<CUdeviceptr> slots_;
    std::vector<CUstream> streams_;
    std::vector<CUevent> events_;
};

void print(const char* name, const Program& program, const std::vector<long long>& times) {
    std::printf("%s,%llu,", name, static_cast<unsigned long long>(program.header.events));
    for (long long time : times) std::printf("%lld ", time);
    std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) fail("usage", "replay_peer OPERATIONS [rounds] [threshold in bytes]");
    const Program program = read(argv[1]);
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 10;
    uint64_t threshold = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : UINT64_MAX;
    const Driver driver;
    check(driver.init(0), "cuInit");
    CUcontext context = nullptr;
    check(driver.retain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(driver.set_current(context), "cuCtxSetCurrent");
    CUmemoryPool pool = nullptr;
    check(driver.default_pool(&pool, 0), "cuDeviceGetDefaultMemPool");
    Replay replay(driver, program);
    std::vector<long long> sync, stream_ordered;
    // As poolbench does: from an empty pool once, and once more, which counts.
    for (int round = 0; round < rounds; ++round) {
        replay.run<Strategy::sync>();
        sync.push_back(replay.run<Strategy::sync>());
        check(driver.set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold), "cuMemPoolSetAttribute");
        replay.run<Strategy::stream_ordered>();
        stream_ordered.push_back(replay.run<Strategy::stream_ordered>());
        uint64_t zero = 0;
        check(driver.set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero), "cuMemPoolSetAttribute");
        check(driver.trim(pool, 0), "cuMemPoolTrimTo");
    }
    print("sync", program, sync);
    print("stream_ordered", program, stream_ordered);
    return 0;
}
