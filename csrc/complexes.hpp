// A packed set of complexes; see ComplexStore in Python.
#pragma once

#include <cstdint>
#include <vector>

namespace cwnet {

struct Complexes {
    std::int64_t count = 0;
    std::vector<const std::int64_t*> cell_ptr;      // per dimension, [count + 1]
    std::vector<const std::int32_t*> boundary_ptr;  // per dimension from one on, [cells + 1]
    std::vector<const std::int32_t*> boundary_idx;  // local to the complex
    std::vector<const std::int64_t*> labels;        // per dimension, [cells], or null

    int dims() const { return static_cast<int>(cell_ptr.size()); }
};

}  // namespace cwnet
