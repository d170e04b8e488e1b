// Enumeration of cliques of more than three vertices, as the simplices of the clique complex.
#pragma once

#include <cstdint>
#include <vector>

#include "cycles.hpp"
#include "graph.hpp"

namespace cwnet {

// The simplices of one dimension: vertices increasing inside a simplex, simplices in lexicographic order.
struct SimplexLevel {
    int size = 0;                        // vertices per simplex
    std::vector<std::int32_t> vertices;  // [count * size]
    std::vector<std::int32_t> faces;     // [count * size]: face i leaves out vertex i
    std::int64_t count() const { return size ? static_cast<std::int64_t>(vertices.size()) / size : 0; }
};

// From the simplices of one dimension to those of the next. A simplex grows by a common neighbour larger than
// its last vertex, so each is found once and in order; its faces are looked up by bisection.
// O(count * (degree * size + size * log count)).
template <class Graph>
void grow_cliques(const Graph& graph, const SimplexLevel& from, SimplexLevel& to, Guard& guard);

extern template void grow_cliques(const SmallGraph&, const SimplexLevel&, SimplexLevel&, Guard&);
extern template void grow_cliques(const LargeGraph&, const SimplexLevel&, SimplexLevel&, Guard&);

}  // namespace cwnet
