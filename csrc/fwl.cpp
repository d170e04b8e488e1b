#include "fwl.hpp"

#include <algorithm>

#include "interner.hpp"

namespace cwnet {

namespace {

void push_wide(Interner& interner, std::int64_t value) {
    interner.push(static_cast<std::int32_t>(value >> 32));
    interner.push(static_cast<std::int32_t>(value & 0xffffffff));
}

// The tuples of one graph, numbered in base n.
struct Tuples {
    std::int64_t n, count;
    int k;
    std::int64_t power[4] = {1, 1, 1, 1};  // power[i] = n^(k-1-i): the weight of entry i

    Tuples(std::int64_t vertices, int order) : n(vertices), count(1), k(order) {
        for (int i = k - 1; i >= 0; --i) {
            power[i] = count;
            count *= n;
        }
    }
    std::int64_t entry(std::int64_t tuple, int i) const { return tuple / power[i] % n; }
};

void push_type(Interner& interner, const Tuples& tuples, std::int64_t tuple,
               const std::vector<std::int32_t>& edge, const std::int64_t* vertex_labels,
               const std::int64_t* edge_labels) {
    for (int i = 0; i < tuples.k; ++i) {
        const std::int64_t u = tuples.entry(tuple, i);
        push_wide(interner, vertex_labels ? vertex_labels[u] : 0);
        for (int j = 0; j < i; ++j) {
            const std::int64_t v = tuples.entry(tuple, j);
            const std::int32_t e = edge[u * tuples.n + v];
            interner.push(u == v ? 2 : e >= 0);
            push_wide(interner, e >= 0 && edge_labels ? edge_labels[e] : 0);
        }
    }
}

}  // namespace

FolkloreResult refine_folklore(const Graphs& graphs, int k, const std::int64_t* vertex_labels,
                               const std::int64_t* edge_labels, bool (*poll)()) {
    using u128 = unsigned __int128;
    FolkloreResult out;
    Cancellation cancellation(poll);
    Interner interner;
    std::vector<std::vector<std::int32_t>> colour(graphs.count);
    std::vector<std::int32_t> edge, sorted, next;
    std::vector<u128> seen;

    const auto num_vertices = [&](std::int64_t g) { return graphs.vertex_ptr[g + 1] - graphs.vertex_ptr[g]; };
    const auto tabulate_edges = [&](std::int64_t g) {
        const std::int64_t n = num_vertices(g);
        edge.assign(n * n, -1);
        for (std::int64_t e = graphs.edge_ptr[g]; e < graphs.edge_ptr[g + 1]; ++e) {
            const std::int64_t u = graphs.ends[2 * e], v = graphs.ends[2 * e + 1];
            edge[u * n + v] = edge[v * n + u] = static_cast<std::int32_t>(e - graphs.edge_ptr[g]);
        }
    };
    const auto record = [&] {
        Interner histograms;
        std::vector<std::int32_t> classes;
        for (const auto& tuples : colour) {
            sorted = tuples;
            std::sort(sorted.begin(), sorted.end());
            histograms.begin();
            for (std::size_t i = 0; i < sorted.size();) {
                std::size_t j = i;
                while (j < sorted.size() && sorted[j] == sorted[i]) ++j;
                histograms.push(sorted[i]);
                histograms.push(static_cast<std::int32_t>(j - i));
                i = j;
            }
            classes.push_back(histograms.number());
        }
        out.histograms.push_back(std::move(classes));
    };

    for (std::int64_t g = 0; g < graphs.count; ++g) {
        tabulate_edges(g);
        const Tuples tuples(num_vertices(g), k);
        for (std::int64_t t = 0; t < tuples.count; ++t) {
            interner.begin();
            push_type(interner, tuples, t, edge,
                      vertex_labels ? vertex_labels + graphs.vertex_ptr[g] : nullptr,
                      edge_labels ? edge_labels + graphs.edge_ptr[g] : nullptr);
            colour[g].push_back(interner.number());
        }
    }
    record();
    for (std::int64_t classes = interner.size();; ++out.rounds) {
        interner.clear();
        for (std::int64_t g = 0; g < graphs.count; ++g) {
            const Tuples tuples(num_vertices(g), k);
            // With k = 1 the tuple of the other vertex alone would not say whether it is a neighbour.
            if (k == 1) tabulate_edges(g);
            next.clear();
            for (std::int64_t t = 0; t < tuples.count; ++t) {
                if (t % 256 == 0) cancellation.poll_if_due();
                if (cancellation.requested()) {
                    out.cancelled = true;
                    return out;
                }
                seen.clear();
                for (std::int64_t x = 0; x < tuples.n; ++x) {
                    u128 colours = 0;
                    for (int i = 0; i < k; ++i) {
                        const std::int64_t replaced = t + (x - tuples.entry(t, i)) * tuples.power[i];
                        colours = colours << 32 | static_cast<std::uint32_t>(colour[g][replaced]);
                    }
                    if (k == 1) {
                        const std::int32_t e = edge[t * tuples.n + x];
                        if (e < 0) continue;
                        const std::int64_t label = edge_labels ? edge_labels[graphs.edge_ptr[g] + e] : 0;
                        colours |= static_cast<u128>(static_cast<std::uint64_t>(label)) << 64;
                    }
                    seen.push_back(colours);
                }
                std::sort(seen.begin(), seen.end());
                interner.begin();
                interner.push(colour[g][t]);
                for (const u128 colours : seen)
                    for (int word = 0; word < 4; ++word)
                        if (word < k || k == 1)
                            interner.push(static_cast<std::int32_t>(colours >> (32 * word)));
                next.push_back(interner.number());
            }
            colour[g].swap(next);
        }
        record();
        if (interner.size() == classes) break;
        classes = interner.size();
    }
    return out;
}

}  // namespace cwnet
