#include "graph.hpp"

namespace cwnet {

Checked build(const GraphView& view, SmallGraph& graph) {
    const int n = graph.n = static_cast<int>(view.num_vertices);
    std::fill_n(graph.adj, n, 0);
    for (std::int64_t e = 0; e < view.num_edges; ++e) {
        const auto u = static_cast<std::uint32_t>(view.ends[2 * e]);
        const auto v = static_cast<std::uint32_t>(view.ends[2 * e + 1]);
        if (u >= static_cast<std::uint32_t>(n) || v >= static_cast<std::uint32_t>(n))
            return {Status::bad_vertex, e};
        if (u == v) return {Status::self_loop, e};
        if (graph.adj[u] & bit(v)) return {Status::repeated_edge, e, graph.edge_between(u, v)};
        graph.adj[u] |= bit(v);
        graph.adj[v] |= bit(u);
        graph.edge[u * 64 + v] = graph.edge[v * 64 + u] = static_cast<std::uint16_t>(e);
    }
    return {};
}

Checked build(const GraphView& view, LargeGraph& graph, bool keep_repeated) {
    const std::int64_t n = graph.n = view.num_vertices;
    graph.multigraph = false;
    for (std::int64_t e = 0; e < view.num_edges; ++e) {
        const std::int64_t u = view.ends[2 * e], v = view.ends[2 * e + 1];
        if (u < 0 || v < 0 || u >= n || v >= n) return {Status::bad_vertex, e};
        if (u == v) return {Status::self_loop, e};
    }
    // Counting sort of the half-edges by their tail, then each list by (head, edge).
    graph.ptr.assign(n + 1, 0);
    for (std::int64_t i = 0; i < 2 * view.num_edges; ++i) ++graph.ptr[view.ends[i] + 1];
    for (std::int64_t v = 0; v < n; ++v) graph.ptr[v + 1] += graph.ptr[v];
    std::vector<std::pair<std::int32_t, std::int32_t>> half(2 * view.num_edges);
    std::vector<std::int64_t> fill(graph.ptr.begin(), graph.ptr.end() - 1);
    for (std::int64_t e = 0; e < view.num_edges; ++e)
        for (int side = 0; side < 2; ++side)
            half[fill[view.ends[2 * e + side]]++] = {view.ends[2 * e + 1 - side],
                                                     static_cast<std::int32_t>(e)};
    graph.nbr.clear();
    graph.first_edge.clear();
    graph.edges.resize(half.size());
    Checked repeat;
    std::int64_t begin = 0;
    for (std::int64_t v = 0; v < n; ++v) {
        const std::int64_t end = graph.ptr[v + 1];
        std::sort(half.begin() + begin, half.begin() + end);
        for (std::int64_t i = begin; i < end; ++i) {
            graph.edges[i] = half[i].second;
            if (i > begin && half[i].first == half[i - 1].first) {
                if (repeat.status == Status::ok || half[i].second < repeat.edge)
                    repeat = {Status::repeated_edge, half[i].second, half[i - 1].second};
                continue;
            }
            graph.nbr.push_back(half[i].first);
            graph.first_edge.push_back(i);
        }
        begin = end;
        graph.ptr[v + 1] = static_cast<std::int64_t>(graph.nbr.size());
    }
    graph.first_edge.push_back(static_cast<std::int64_t>(half.size()));
    graph.multigraph = repeat.status != Status::ok;
    return keep_repeated ? Checked{} : repeat;
}

}  // namespace cwnet
