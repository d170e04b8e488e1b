#include "cliques.hpp"

namespace cwnet {

namespace {

// Calls f(w) for the common neighbours w of a simplex that are larger than its last vertex, increasing.
template <class F>
void for_each_extension(const SmallGraph& graph, const std::int32_t* simplex, int size, F&& f) {
    const int last = simplex[size - 1];
    std::uint64_t common = ~(bit(last) | (bit(last) - 1));
    for (int i = 0; i < size; ++i) common &= graph.adj[simplex[i]];
    for_each_bit(common, f);
}

template <class F>
void for_each_extension(const LargeGraph& graph, const std::int32_t* simplex, int size, F&& f) {
    const std::int32_t last = simplex[size - 1];
    const auto begin = graph.nbr.begin() + graph.ptr[last], end = graph.nbr.begin() + graph.ptr[last + 1];
    for (auto it = std::upper_bound(begin, end, last); it != end; ++it) {
        bool common = true;
        for (int i = 0; i + 1 < size && common; ++i) common = graph.adjacent(simplex[i], *it);
        if (common) f(*it);
    }
}

std::int32_t find_simplex(const SimplexLevel& level, const std::int32_t* simplex) {
    std::int64_t low = 0, high = level.count();
    while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        const std::int32_t* there = level.vertices.data() + middle * level.size;
        if (std::lexicographical_compare(there, there + level.size, simplex, simplex + level.size))
            low = middle + 1;
        else
            high = middle;
    }
    return static_cast<std::int32_t>(low);
}

}  // namespace

template <class Graph>
void grow_cliques(const Graph& graph, const SimplexLevel& from, SimplexLevel& to, Guard& guard) {
    const int size = from.size;
    to.size = size + 1;
    to.vertices.clear();
    to.faces.clear();
    std::vector<std::int32_t> face(size);
    for (std::int64_t i = 0; i < from.count(); ++i) {
        guard.step();
        const std::int32_t* simplex = from.vertices.data() + i * size;
        for_each_extension(graph, simplex, size, [&](std::int32_t w) {
            guard.step();
            guard.cell();
            to.vertices.insert(to.vertices.end(), simplex, simplex + size);
            to.vertices.push_back(w);
            for (int omitted = 0; omitted < size; ++omitted) {
                std::int32_t* at = face.data();
                for (int j = 0; j < size; ++j)
                    if (j != omitted) *at++ = simplex[j];
                *at = w;
                to.faces.push_back(find_simplex(from, face.data()));
            }
            to.faces.push_back(static_cast<std::int32_t>(i));
        });
    }
}

template void grow_cliques(const SmallGraph&, const SimplexLevel&, SimplexLevel&, Guard&);
template void grow_cliques(const LargeGraph&, const SimplexLevel&, SimplexLevel&, Guard&);

}  // namespace cwnet
