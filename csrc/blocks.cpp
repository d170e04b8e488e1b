#include "blocks.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cwnet {
namespace {

using Size = std::int64_t;

#define CWNET_INLINE CWNET_TARGET inline __attribute__((always_inline))

#define CWNET_TARGET
#define CWNET_BF16 0
#define CWNET_LANES 4
#define CWNET_ROWS 4  // with two registers each: 8 of the 16 hold sums
#define CWNET_COLUMNS 2
namespace anywhere {
#include "blocks.inc"
}
#if defined(__x86_64__)
#undef CWNET_TARGET
#undef CWNET_LANES
#undef CWNET_ROWS
#define CWNET_TARGET __attribute__((target("avx2,fma")))
#define CWNET_LANES 8
#define CWNET_ROWS 6  // with two registers each: 12 of the 16 hold sums
namespace avx2 {
#include "blocks.inc"
}
#undef CWNET_TARGET
#undef CWNET_BF16
#undef CWNET_LANES
#undef CWNET_ROWS
#define CWNET_TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma")))
#define CWNET_BF16 1
#define CWNET_LANES 16
#define CWNET_ROWS 12  // with two registers each: 24 of the 32 hold sums
namespace avx512 {
#include "blocks.inc"
}
#endif

const Blocks& best() {
#if defined(__x86_64__)
    // Instructions of bf16 stand in `multiply` alone, behind its flag.
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return avx512::table;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::table;
#endif
    return anywhere::table;
}

std::atomic<bool> portably{false};

}  // namespace

bool multiplies_bf16() {
#if defined(__x86_64__)
    return &best() == &avx512::table && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

const Blocks& blocks() {
    static const Blocks& found = best();
    return portably.load(std::memory_order_relaxed) ? anywhere::table : found;
}

void use_portable_blocks(bool portable) {
    portably = portable;
}

}  // namespace cwnet
