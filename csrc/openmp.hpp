// Loops over the threads that PyTorch has already.
#pragma once

#include <dlfcn.h>

#include <cstdint>

namespace cwnet {

// Calls work(begin, end) for ranges that cover 0..count, at least `grain` long, on up to `threads` threads.
//
// PyTorch's operators run on OpenMP threads that wait for more work by spinning. Threads of our own would
// share cores with them, so we ask the OpenMP runtime that PyTorch has loaded, if there is one; else the
// caller does it all. What is computed must not depend on how the range is cut.
template <class Work>
void for_each_range(std::int64_t count, std::int64_t grain, int threads, const Work& work) {
    using Body = void (*)(void*);
    using Parallel = void (*)(Body, void*, unsigned, unsigned);
    static const auto parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    static const auto number = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_thread_num"));
    static const auto team = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_num_threads"));
    const std::int64_t most = (count + grain - 1) / grain;
    if (most < threads) threads = static_cast<int>(most);
    if (threads <= 1 || !parallel || !number || !team) {
        if (count > 0) work(std::int64_t{0}, count);
        return;
    }
    struct Shared {
        std::int64_t count;
        const Work* work;
    } shared{count, &work};
    parallel(
        [](void* data) {
            const auto& s = *static_cast<const Shared*>(data);
            const std::int64_t part = number(), parts = team();
            const std::int64_t begin = s.count * part / parts, end = s.count * (part + 1) / parts;
            if (begin < end) (*s.work)(begin, end);
        },
        &shared, static_cast<unsigned>(threads), 0);
}

}  // namespace cwnet
