#include "cycles.hpp"

#include <limits>
#include <numeric>

namespace cwnet {

// ---------------------------------------------------------------------------------------------- CycleList

template <class Int>
void CycleList::add(const Int* path, int length) {
    int first = 0;
    for (int i = 1; i < length; ++i)
        if (path[i] < path[first]) first = i;
    const int right = first + 1 == length ? 0 : first + 1;
    const int left = first == 0 ? length - 1 : first - 1;
    const int step = path[right] < path[left] ? 1 : -1;
    for (int i = 0, at = first; i < length; ++i) {
        vertices.push_back(static_cast<std::int32_t>(path[at]));
        at += step;
        if (at == length) at = 0;
        if (at < 0) at = length - 1;
    }
    start.push_back(static_cast<std::int64_t>(vertices.size()));
}

void CycleList::sort() {
    const auto less = [this](std::int64_t a, std::int64_t b) {
        const int la = length(a), lb = length(b);
        if (la != lb) return la < lb;
        return std::lexicographical_compare((*this)[a], (*this)[a] + la, (*this)[b], (*this)[b] + lb);
    };
    const std::int64_t count = size();
    bool sorted = true;
    for (std::int64_t i = 1; i < count && sorted; ++i) sorted = !less(i, i - 1);
    if (sorted) return;
    order_.resize(count);
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), less);
    vertices2_.clear();
    start2_.assign(1, 0);
    for (const std::int64_t i : order_) {
        vertices2_.insert(vertices2_.end(), (*this)[i], (*this)[i] + length(i));
        start2_.push_back(static_cast<std::int64_t>(vertices2_.size()));
    }
    vertices.swap(vertices2_);
    start.swap(start2_);
}

// ---------------------------------------------------------------------- blocks of at most 64 vertices (bits)

namespace {

// What is left of `set` when vertices of degree < 2 are taken away again and again.
std::uint64_t two_core(const std::uint64_t* adj, std::uint64_t set, std::uint64_t suspects) {
    for (suspects &= set; suspects;) {
        const int v = std::countr_zero(suspects);
        suspects &= suspects - 1;
        const std::uint64_t around = adj[v] & set;
        if (around & (around - 1)) continue;  // two neighbours or more
        set &= ~bit(v);
        suspects |= around;
    }
    return set;
}

// Cycles through s inside a set of vertices.
template <CycleKind kind>
class SmallSearch {
  public:
    SmallSearch(const std::uint64_t* adj, int min_length, int max_length, Guard& guard)
        : adj_(adj), min_length_(min_length), max_length_(max_length), guard_(guard) {}

    template <class Emit>
    void through(int s, std::uint64_t set, Emit&& emit) {
        const std::uint64_t around = adj_[s] & set;
        inner_ = kind == CycleKind::induced ? ~around : ~std::uint64_t{0};
        measure(s, set);
        path_[0] = static_cast<std::int32_t>(s);
        for_each_bit(around, [&](int u) {
            // Each cycle is walked from the smaller of s's two neighbours on it.
            closers_ = around & ~(bit(u) | (bit(u) - 1));
            if (!closers_) return;
            path_[1] = static_cast<std::int32_t>(u);
            extend(u, 2, set & ~(bit(s) | bit(u)), emit);
        });
    }

  private:
    // within_[r] = the vertices at distance at most r of s. No need of it where no path can grow too long.
    void measure(int s, std::uint64_t set) {
        bounded_ = std::popcount(set) > max_length_;
        if (!bounded_) return;
        std::uint64_t reached = bit(s), frontier = reached;
        for (int r = 0; r <= std::min(63, max_length_); ++r) {
            within_[r] = reached;
            std::uint64_t grown = 0;
            for_each_bit(frontier, [&](int v) { grown |= adj_[v]; });
            frontier = grown & set & ~reached;
            reached |= frontier;
        }
    }

    template <class Emit>
    void extend(int v, int length, std::uint64_t free, Emit&& emit) {
        guard_.step();
        const std::uint64_t next = adj_[v] & free;
        if (length + 1 >= min_length_)
            for_each_bit(next & closers_, [&](int x) {
                path_[length] = static_cast<std::int32_t>(x);
                guard_.cell();
                emit(path_, length + 1);
            });
        if (length + 2 > max_length_) return;
        std::uint64_t inner = next & inner_;
        if (bounded_) inner &= within_[std::min(63, max_length_ - length)];
        // For a ring, the neighbours of v that the path does not take may not be met again.
        const std::uint64_t rest = kind == CycleKind::induced ? free & ~next : free;
        if (!(rest & closers_)) return;
        for_each_bit(inner, [&](int w) {
            path_[length] = static_cast<std::int32_t>(w);
            extend(w, length + 1, rest & ~bit(w), emit);
        });
    }

    const std::uint64_t* adj_;
    int min_length_, max_length_;
    Guard& guard_;
    bool bounded_ = false;
    std::uint64_t inner_ = 0, closers_ = 0;
    std::uint64_t within_[64];
    std::int32_t path_[64];
};

template <CycleKind kind, class Emit>
void search_small(const std::uint64_t* adj, std::uint64_t block, int min_length, int max_length, Guard& guard,
                  Emit&& emit) {
    SmallSearch<kind> search(adj, min_length, max_length, guard);
    while (block) {
        const int s = std::countr_zero(block);
        search.through(s, block, emit);
        block &= ~bit(s);
        block = two_core(adj, block, adj[s]);
    }
}

template <class Emit>
void search_small(CycleKind kind, const std::uint64_t* adj, std::uint64_t block, int min_length,
                  int max_length, Guard& guard, Emit&& emit) {
    if (kind == CycleKind::induced)
        search_small<CycleKind::induced>(adj, block, min_length, max_length, guard, emit);
    else
        search_small<CycleKind::simple>(adj, block, min_length, max_length, guard, emit);
}

// Calls f(set of vertices) for every biconnected block of at least three vertices.
template <class F>
void for_each_block(const std::uint64_t* adj, std::uint64_t vertices, F&& f) {
    std::uint8_t disc[64], low[64], parent[64], stack[64];
    std::uint64_t todo[64];
    std::uint64_t unseen = vertices;
    std::uint8_t clock = 0;
    while (unseen) {
        const int root = std::countr_zero(unseen);
        int v = root, height = 0;
        unseen &= ~bit(v);
        disc[v] = low[v] = clock++;
        todo[v] = adj[v] & vertices;
        for (;;) {
            if (todo[v]) {
                const int w = std::countr_zero(todo[v]);
                todo[v] &= todo[v] - 1;
                if (unseen & bit(w)) {
                    unseen &= ~bit(w);
                    parent[w] = static_cast<std::uint8_t>(v);
                    stack[height++] = static_cast<std::uint8_t>(w);
                    disc[w] = low[w] = clock++;
                    todo[w] = adj[w] & vertices & ~bit(v);
                    v = w;
                } else if (disc[w] < low[v]) {
                    low[v] = disc[w];
                }
                continue;
            }
            if (v == root) break;
            const int p = parent[v];
            if (low[v] >= disc[p]) {
                std::uint64_t block = bit(p);
                int w;
                do {
                    w = stack[--height];
                    block |= bit(w);
                } while (w != v);
                if (block != (bit(p) | bit(v))) f(block);
            } else if (low[v] < low[p]) {
                low[p] = low[v];
            }
            v = p;
        }
    }
}

}  // namespace

void find_cycles(const SmallGraph& graph, CycleKind kind, int min_length, int max_length, CycleList& out,
                 Guard& guard) {
    if (max_length < min_length || graph.n == 0) return;
    const std::uint64_t all = graph.n == 64 ? ~std::uint64_t{0} : bit(graph.n) - 1;
    const std::uint64_t core = two_core(graph.adj, all, all);
    for_each_block(graph.adj, core, [&](std::uint64_t block) {
        search_small(kind, graph.adj, block, min_length, max_length, guard,
                     [&](const std::int32_t* path, int length) { out.add(path, length); });
    });
}

// ---------------------------------------------------------------------------------- graphs of any size
// (lists)

namespace {

constexpr std::int32_t kFar = std::numeric_limits<std::int32_t>::max();

// Calls f(vertices of the block, unsorted) for every biconnected block of at least three vertices.
template <class F>
void for_each_block(const LargeGraph& graph, CycleScratch& s, F&& f) {
    const std::int64_t n = graph.n;
    s.disc.assign(n, -1);
    s.low.resize(n);
    s.parent.resize(n);
    s.next.assign(graph.ptr.begin(), graph.ptr.end() - 1);
    std::int32_t clock = 0;
    for (std::int64_t root = 0; root < n; ++root) {
        if (s.disc[root] >= 0) continue;
        s.stack.clear();
        auto v = static_cast<std::int32_t>(root);
        s.parent[v] = -1;
        s.disc[v] = s.low[v] = clock++;
        for (;;) {
            if (s.next[v] < graph.ptr[v + 1]) {
                const std::int32_t w = graph.nbr[s.next[v]++];
                if (w == s.parent[v]) continue;
                if (s.disc[w] < 0) {
                    s.parent[w] = v;
                    s.stack.push_back(w);
                    s.disc[w] = s.low[w] = clock++;
                    v = w;
                } else {
                    s.low[v] = std::min(s.low[v], s.disc[w]);
                }
                continue;
            }
            const std::int32_t p = s.parent[v];
            if (p < 0) break;
            if (s.low[v] >= s.disc[p]) {
                s.member.assign(1, p);
                std::int32_t w;
                do {
                    w = s.stack.back();
                    s.stack.pop_back();
                    s.member.push_back(w);
                } while (w != v);
                if (s.member.size() > 2) f(s.member);
            } else {
                s.low[p] = std::min(s.low[p], s.low[v]);
            }
            v = p;
        }
    }
}

// The lists' twin of SmallSearch, with an explicit stack.
class LargeSearch {
  public:
    LargeSearch(const LargeGraph& block, CycleKind kind, int min_length, int max_length, Guard& guard,
                CycleScratch& scratch)
        : block_(block),
          induced_(kind == CycleKind::induced),
          min_length_(min_length),
          max_length_(max_length),
          guard_(guard),
          s_(scratch) {
        s_.alive.assign(block.n, 1);
        s_.closes.assign(block.n, 0);
        s_.on_path.assign(block.n, 0);
        s_.blocked.assign(block.n, 0);
        s_.dist.assign(block.n, kFar);
        s_.degree.resize(block.n);
        for (std::int64_t v = 0; v < block.n; ++v)
            s_.degree[v] = static_cast<std::int32_t>(block.ptr[v + 1] - block.ptr[v]);
    }

    template <class Emit>
    void run(Emit&& emit) {
        for (std::int32_t s = 0; s < block_.n; ++s) {
            if (!s_.alive[s]) continue;
            through(s, emit);
            remove(s);
        }
    }

  private:
    template <class F>
    void for_each_neighbour(std::int32_t v, F&& f) {
        for (std::int64_t i = block_.ptr[v]; i < block_.ptr[v + 1]; ++i) f(block_.nbr[i]);
    }

    // Deletes s, and then whatever has fewer than two neighbours left.
    void remove(std::int32_t s) {
        s_.queue.assign(1, s);
        s_.alive[s] = 0;
        while (!s_.queue.empty()) {
            const std::int32_t v = s_.queue.back();
            s_.queue.pop_back();
            for_each_neighbour(v, [&](std::int32_t w) {
                if (s_.alive[w] && --s_.degree[w] < 2) {
                    s_.alive[w] = 0;
                    s_.queue.push_back(w);
                }
            });
        }
    }

    // Distances to s up to half the longest cycle: what is farther lies on no cycle through s that is short
    // enough. `queue` remembers what was reached, to be reset afterwards.
    void measure(std::int32_t s) {
        s_.queue.assign(1, s);
        s_.dist[s] = 0;
        for (std::size_t i = 0; i < s_.queue.size(); ++i) {
            const std::int32_t v = s_.queue[i];
            if (s_.dist[v] >= max_length_ / 2) break;
            guard_.step();
            for_each_neighbour(v, [&](std::int32_t w) {
                if (s_.alive[w] && s_.dist[w] == kFar) {
                    s_.dist[w] = s_.dist[v] + 1;
                    s_.queue.push_back(w);
                }
            });
        }
    }

    void block_around(std::int32_t v, std::int32_t by) {
        if (induced_) for_each_neighbour(v, [&](std::int32_t w) { s_.blocked[w] += by; });
    }

    template <class Emit>
    void through(std::int32_t s, Emit&& emit) {
        measure(s);
        for_each_neighbour(s, [&](std::int32_t u) { s_.closes[u] = s_.alive[u]; });
        s_.on_path[s] = 1;
        for_each_neighbour(s, [&](std::int32_t u) {
            if (s_.alive[u]) from(s, u, emit);
        });
        s_.on_path[s] = 0;
        for_each_neighbour(s, [&](std::int32_t u) { s_.closes[u] = 0; });
        for (const std::int32_t v : s_.queue) s_.dist[v] = kFar;
    }

    template <class Emit>
    void from(std::int32_t s, std::int32_t u, Emit&& emit) {
        auto& path = s_.path;
        path.assign({s, u});
        s_.on_path[u] = 1;
        s_.next[u] = block_.ptr[u];
        while (path.size() > 1) {
            const std::int32_t v = path.back();
            const int length = static_cast<int>(path.size());
            if (s_.next[v] == block_.ptr[v + 1]) {  // v is exhausted: step back
                s_.on_path[v] = 0;
                path.pop_back();
                if (path.size() > 1) block_around(path.back(), -1);
                continue;
            }
            const std::int32_t w = block_.nbr[s_.next[v]++];
            if (!s_.alive[w] || s_.on_path[w] || s_.blocked[w]) continue;
            if (s_.closes[w] && w > u && length + 1 >= min_length_ && length < max_length_) {
                path.push_back(w);
                guard_.cell();
                emit(path.data(), length + 1);
                path.pop_back();
            }
            if ((induced_ && s_.closes[w]) || length + 2 > max_length_) continue;
            if (s_.dist[w] == kFar || s_.dist[w] > max_length_ - length) continue;
            guard_.step();
            block_around(v, +1);
            path.push_back(w);
            s_.on_path[w] = 1;
            s_.next[w] = block_.ptr[w];
        }
    }

    const LargeGraph& block_;
    bool induced_;
    int min_length_, max_length_;
    Guard& guard_;
    CycleScratch& s_;
};

}  // namespace

void find_cycles(const LargeGraph& graph, CycleKind kind, int min_length, int max_length, CycleList& out,
                 Guard& guard, CycleScratch& scratch) {
    if (max_length < min_length) return;
    std::vector<std::vector<std::int32_t>> blocks;
    for_each_block(graph, scratch, [&](std::vector<std::int32_t>& member) { blocks.push_back(member); });
    scratch.local.assign(graph.n, -1);
    scratch.next.resize(graph.n);
    std::vector<std::int32_t> cycle;
    for (auto& member : blocks) {
        guard.step();
        std::sort(member.begin(), member.end());
        const auto size = static_cast<std::int32_t>(member.size());
        for (std::int32_t i = 0; i < size; ++i) scratch.local[member[i]] = i;
        const auto emit = [&](const std::int32_t* path, int length) {
            cycle.assign(path, path + length);
            for (auto& v : cycle) v = member[v];
            out.add(cycle.data(), length);
        };
        if (size <= 64) {
            std::uint64_t adj[64] = {};
            for (std::int32_t i = 0; i < size; ++i)
                for (std::int64_t k = graph.ptr[member[i]]; k < graph.ptr[member[i] + 1]; ++k)
                    if (const std::int32_t j = scratch.local[graph.nbr[k]]; j >= 0) adj[i] |= bit(j);
            const std::uint64_t all = size == 64 ? ~std::uint64_t{0} : bit(size) - 1;
            search_small(kind, adj, all, min_length, max_length, guard, emit);
        } else {
            LargeGraph& block = scratch.block;
            block.n = size;
            block.ptr.assign(1, 0);
            block.nbr.clear();
            for (std::int32_t i = 0; i < size; ++i) {
                for (std::int64_t k = graph.ptr[member[i]]; k < graph.ptr[member[i] + 1]; ++k)
                    if (const std::int32_t j = scratch.local[graph.nbr[k]]; j >= 0) block.nbr.push_back(j);
                block.ptr.push_back(static_cast<std::int64_t>(block.nbr.size()));
            }
            LargeSearch(block, kind, min_length, max_length, guard, scratch).run(emit);
        }
        for (const std::int32_t v : member) scratch.local[v] = -1;
    }
}

}  // namespace cwnet
