// Enumeration of induced cycles (rings) and of simple cycles.
#pragma once

#include <cstdint>
#include <vector>

#include "graph.hpp"

namespace cwnet {

// Cycles as vertex sequences, one after another. Every cycle is written from its smallest vertex towards the
// smaller of that vertex's two neighbours on the cycle, so equal cycles are equal sequences.
struct CycleList {
    std::vector<std::int32_t> vertices;
    std::vector<std::int64_t> start{0};  // [size + 1]

    std::int64_t size() const { return static_cast<std::int64_t>(start.size()) - 1; }
    int length(std::int64_t i) const { return static_cast<int>(start[i + 1] - start[i]); }
    const std::int32_t* operator[](std::int64_t i) const { return vertices.data() + start[i]; }

    void clear() {
        vertices.clear();
        start.resize(1);
    }
    // Appends the cycle path[0..length), rotated and turned to its normal form.
    template <class Int>
    void add(const Int* path, int length);
    // The order of the cells: by length, then lexicographic. Independent of how the cycles were found.
    void sort();

  private:
    std::vector<std::int64_t> order_, start2_;
    std::vector<std::int32_t> vertices2_;
};

enum class CycleKind { induced, simple };

// Working memory of the searches, kept from graph to graph.
struct CycleScratch {
    std::vector<std::int32_t> disc, low, parent, stack, member, path, dist, blocked, degree, queue, local;
    std::vector<std::int64_t> next;
    std::vector<std::uint8_t> alive, closes, on_path;
    LargeGraph block;
};

// Appends every cycle of the kind whose length lies in [min_length, max_length], min_length >= 3.
//
// The graph is cut into its biconnected blocks (Hopcroft and Tarjan, 1973), since no cycle crosses a cut
// vertex. In a block, the cycles through one vertex s are found by extending paths from s; then s is deleted,
// with everything its deletion leaves on no cycle, and the next s is taken. A ring's path blocks the
// neighbours of its inner vertices, so a path that survives has no chord (Dias, Castonguay, Longo and Jradi,
// arXiv:1309.1051; the order of vertices replaces their labelling, as each s is deleted after use). Paths
// that can not be closed within max_length by the distance to s are cut.
//
// Each cycle is found once. Worst case exponential, as the number of cycles is; O(n + m) plus the size of the
// output on graphs whose blocks are cycles. Blocks of at most 64 vertices are searched with one word per
// vertex, larger ones with lists and an explicit stack, so depth is bounded by memory alone.
void find_cycles(const SmallGraph& graph, CycleKind kind, int min_length, int max_length, CycleList& out,
                 Guard& guard);
void find_cycles(const LargeGraph& graph, CycleKind kind, int min_length, int max_length, CycleList& out,
                 Guard& guard, CycleScratch& scratch);

}  // namespace cwnet
