// What these programs do where a call of the CUDA runtime fails: say which, and end with exit 3.

#pragma once

#include <cuda_runtime.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                                \
    do {                                                                                                           \
        const cudaError_t error = (call);                                                                          \
        if (error != cudaSuccess) {                                                                                \
            std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, #call, cudaGetErrorString(error)); \
            std::exit(3);                                                                                          \
        }                                                                                                          \
    } while (0)
