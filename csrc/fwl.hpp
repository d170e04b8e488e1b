// Folklore k-dimensional Weisfeiler–Lehman on graphs, exactly.
#pragma once

#include <cstdint>
#include <vector>

#include "lift.hpp"

namespace cwnet {

struct FolkloreResult {
    std::int32_t rounds = 0;  // the round whose joint colouring is stable
    // Per round computed, 0 included: a number per graph, the same for graphs with the same colour histogram.
    std::vector<std::vector<std::int32_t>> histograms;
    bool cancelled = false;
};

// k-FWL for k = 1, 2, 3. A k-tuple of vertices starts with its isomorphism type (which entries are equal,
// which are joined, and all labels), and in each round sees, for every vertex x, the k tuples that come of
// putting x in place of one entry. All graphs are refined together, with colours by comparison: no two
// multisets share a number by accident. O(n^(k+1) log n) time per graph and round, O(n^k) memory for all
// graphs together. (Cai, Fürer and Immerman, 1992.) Graphs must be simple. Labels may be null.
FolkloreResult refine_folklore(const Graphs& graphs, int k, const std::int64_t* vertex_labels,
                               const std::int64_t* edge_labels, bool (*poll)());

}  // namespace cwnet
