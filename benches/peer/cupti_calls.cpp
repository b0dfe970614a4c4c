// Records each CUDA driver call of a process through CUPTI, and writes them as CSV when the process ends:
// what poolbench's API summary is checked against (check_api_summary.py).
//
// Build: g++ -O2 -std=c++17 -shared -fPIC -I$CUPTI/include -I/usr/local/cuda/include
//            benches/peer/cupti_calls.cpp -o libcupti_calls.so -L$CUPTI/lib64 -lcupti -Wl,-rpath,$CUPTI/lib64
//        with CUPTI=/usr/local/cuda/extras/CUPTI
// Run:   CUDA_INJECTION64_PATH=$PWD/libcupti_calls.so POOLBENCH_CUPTI_CSV=calls.csv poolbench api-summary
//
// The driver loads the library inside cuInit, so the first cuInit of a process is not recorded.
//
// Each call has two times. `outer_ns` runs from the first thing that the callback at the call's entry does
// to the last thing that the callback at its exit does; `inner_ns` from the end of the one to the beginning
// of the other. So a clock around the call from outside reads at least `outer_ns`, and without CUPTI it
// would read about `inner_ns`.

#include <cupti.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <vector>

namespace {

// Room for the calls of a run; the vector grows beyond it, at the price of one slow call.
constexpr size_t kRecordsReserved = size_t{1} << 18;

struct Record {
    CUpti_CallbackId function;
    int64_t outer_start_ns;
    int64_t inner_start_ns;
    int64_t inner_end_ns;
    int64_t outer_end_ns;
};

std::mutex mutex;
std::vector<Record>* records;
std::vector<const char*>* names;

int64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool succeeded(CUptiResult result, const char* call) {
    if (result == CUPTI_SUCCESS) {
        return true;
    }
    const char* text = nullptr;
    cuptiGetResultString(result, &text);
    std::fprintf(stderr, "cupti_calls: %s failed: %s (%d)\n", call, text ? text : "unknown", int(result));
    return false;
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId function, const void* data) {
    const int64_t entered_ns = now_ns();
    const auto* call = static_cast<const CUpti_CallbackData*>(data);
    const std::lock_guard<std::mutex> guard(mutex);
    if (call->callbackSite == CUPTI_API_ENTER) {
        // One more than the index, so that 0 means that the entry was not seen.
        *call->correlationData = records->size() + 1;
        records->push_back({function, entered_ns, 0, 0, 0});
        records->back().inner_start_ns = now_ns();
        return;
    }
    const uint64_t place = *call->correlationData;
    if (place == 0 || place > records->size()) {
        return;
    }
    Record& record = (*records)[place - 1];
    if (record.function != function || record.outer_end_ns != 0) {
        return;
    }
    record.inner_end_ns = entered_ns;
    record.outer_end_ns = now_ns();
}

void write_csv() {
    const char* path = std::getenv("POOLBENCH_CUPTI_CSV");
    path = path && *path ? path : "cupti_calls.csv";
    std::FILE* file = std::fopen(path, "w");
    if (!file) {
        std::fprintf(stderr, "cupti_calls: cannot write %s: %s\n", path, std::strerror(errno));
        return;
    }
    const std::lock_guard<std::mutex> guard(mutex);
    std::fprintf(file, "function,outer_ns,inner_ns\n");
    for (const Record& record : *records) {
        // A call that never came back has no time.
        if (record.outer_end_ns != 0) {
            const char* name = record.function < names->size() ? (*names)[record.function] : nullptr;
            std::fprintf(file, "%s,%lld,%lld\n", name ? name : "unknown",
                         static_cast<long long>(record.outer_end_ns - record.outer_start_ns),
                         static_cast<long long>(record.inner_end_ns - record.inner_start_ns));
        }
    }
    if (std::fclose(file) != 0) {
        std::fprintf(stderr, "cupti_calls: cannot write %s: %s\n", path, std::strerror(errno));
    }
}

}  // namespace

// The driver calls this, once, while it initialises.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
    // Never deleted: calls may come until the process is gone.
    records = new std::vector<Record>;
    // Written once, so that no call pays for the first touch of a page.
    records->resize(kRecordsReserved);
    records->clear();
    names = new std::vector<const char*>(CUPTI_DRIVER_TRACE_CBID_SIZE, nullptr);
    for (CUpti_CallbackId function = 1; function < CUPTI_DRIVER_TRACE_CBID_SIZE; ++function) {
        const char* name = nullptr;
        if (cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, function, &name) == CUPTI_SUCCESS) {
            (*names)[function] = name;
        }
    }
    CUpti_SubscriberHandle subscriber;
    if (!succeeded(cuptiSubscribe(&subscriber, on_call, nullptr), "cuptiSubscribe") ||
        !succeeded(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API), "cuptiEnableDomain")) {
        return 0;
    }
    std::atexit(write_csv);
    return 1;
}
