// One graph, as the searches see it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "guard.hpp"

namespace cwnet {

inline constexpr std::uint64_t bit(int v) {
    return std::uint64_t{1} << v;
}

// Calls f(v) for every vertex v of a set held as bits, in increasing order.
template <class F>
inline void for_each_bit(std::uint64_t set, F&& f) {
    for (; set; set &= set - 1) f(std::countr_zero(set));
}

// A graph as it lies in the packed store: edge e joins ends[2e] and ends[2e+1].
struct GraphView {
    std::int64_t num_vertices;
    std::int64_t num_edges;
    const std::int32_t* ends;
};

// Adjacency of a simple graph of at most 64 vertices: one word per vertex, and the edge between any two
// adjacent vertices by table. Reused from graph to graph; table entries of absent edges are stale.
struct SmallGraph {
    int n = 0;
    std::uint64_t adj[64];
    std::uint16_t edge[64 * 64];

    std::uint16_t edge_between(int u, int v) const { return edge[u * 64 + v]; }
};

// Adjacency lists of a graph of any size, neighbours increasing. Parallel edges are listed once in `nbr`;
// `first_edge` points at the run of edge numbers that join the two vertices.
struct LargeGraph {
    std::int64_t n = 0;
    bool multigraph = false;
    std::vector<std::int64_t> ptr;         // [n + 1]
    std::vector<std::int32_t> nbr;         // [ptr[n]]
    std::vector<std::int64_t> first_edge;  // [ptr[n] + 1], into `edges`
    std::vector<std::int32_t> edges;       // edge numbers, grouped by (vertex, neighbour)

    // Position of neighbour v in the list of u; v must be a neighbour.
    std::int64_t find(std::int32_t u, std::int32_t v) const {
        return std::lower_bound(nbr.begin() + ptr[u], nbr.begin() + ptr[u + 1], v) - nbr.begin();
    }
    bool adjacent(std::int32_t u, std::int32_t v) const {
        return std::binary_search(nbr.begin() + ptr[u], nbr.begin() + ptr[u + 1], v);
    }
};

struct Checked {
    Status status = Status::ok;
    std::int64_t edge = -1;   // the offending edge
    std::int64_t other = -1;  // the edge it repeats
};

// Both builders check the graph: ends in range, no self-loop, and (unless `keep_repeated`) no repeated edge.
// O(n + m) for the small one, O(n + m log m) for the large one. The small one finds a repeated edge but never
// keeps it: a multigraph is a LargeGraph.
Checked build(const GraphView& view, SmallGraph& graph);
Checked build(const GraphView& view, LargeGraph& graph, bool keep_repeated);

}  // namespace cwnet
