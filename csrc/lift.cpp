#include "lift.hpp"

#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "cliques.hpp"
#include "cycles.hpp"
#include "graph.hpp"
#include "parallel.hpp"

namespace cwnet {

namespace {

// The cells of one dimension of a few consecutive graphs.
struct ChunkCells {
    std::vector<std::int32_t> per_graph;  // cells of each graph
    std::vector<std::int32_t> sizes;      // boundary size of each cell
    std::vector<std::int32_t> idx;

    void add(std::int32_t size) { sizes.push_back(size); }
};

struct Chunk {
    std::vector<ChunkCells> dims;
    std::vector<Incident> incidents;

    explicit Chunk(int dimension) : dims(std::max(0, dimension - 1)) {}
    void clear() {
        for (auto& cells : dims) {
            cells.per_graph.clear();
            cells.sizes.clear();
            cells.idx.clear();
        }
        incidents.clear();
    }
};

// Lifts graphs one after another, reusing its working memory.
class Lifter {
  public:
    Lifter(const Lifting& lifting, const LiftOptions& options, Cancellation& cancellation, bool caller)
        : lifting_(lifting), options_(options), guard_(cancellation, caller) {}

    // Appends the cells of one graph to the chunk. Returns false where the graph got none because of an
    // error.
    bool lift(std::int64_t position, const GraphView& view, Chunk& chunk) {
        mark(chunk);
        const Checked checked = build_graph(view);
        if (checked.status != Status::ok) {
            chunk.incidents.push_back({position, checked.status, checked.edge, checked.other, 0, 0.0, -1});
            return close(chunk), false;
        }
        bool whole = true;
        try {
            const bool truncate = options_.on_budget == OnBudget::truncate;
            guard_.start(lifting_.max_cells, truncate ? lifting_.max_seconds / 2 : lifting_.max_seconds);
            attach(lifting_, chunk);
        } catch (const BudgetSpent& spent) {
            Incident incident{position, spent.status, -1, -1, guard_.cells(), guard_.seconds(), -1};
            rollback(chunk);
            if (options_.on_budget == OnBudget::truncate) incident.kept = attach_what_fits(chunk);
            chunk.incidents.push_back(incident);
            whole = incident.kept >= 0;
        }
        close(chunk);
        return whole;
    }

  private:
    Checked build_graph(const GraphView& view) {
        if (view.num_vertices == 0) return {Status::no_vertices};
        small_ = view.num_vertices <= 64;
        if (small_) {
            const Checked checked = build(view, small_graph_);
            if (checked.status != Status::repeated_edge || !options_.keep_repeated) return checked;
            small_ = false;
        }
        const Checked checked = build(view, large_graph_, options_.keep_repeated);
        if (checked.status == Status::ok && large_graph_.multigraph && lifting_.cliques >= 3)
            return {Status::clique_multigraph};
        return checked;
    }

    // Cells of all sizes up to the largest bound under which the budget holds. Unlike a cut in the order of
    // enumeration, this is the same for all relabellings of a graph (as long as it is the number of cells,
    // and not the time, that is short).
    int attach_what_fits(Chunk& chunk) {
        const Clock::time_point start = Clock::now();
        for (int bound = 3; bound <= lifting_.largest(); ++bound) {
            try {
                guard_.start(lifting_.max_cells, lifting_.max_seconds / 2 - seconds_since(start));
                attach(lifting_.clipped(bound), chunk);
                rollback(chunk);
            } catch (const BudgetSpent&) {
                rollback(chunk);
                const int fits = bound - 1;
                if (fits >= 3) {
                    guard_.start(lifting_.max_cells, 1e9);
                    attach(lifting_.clipped(fits), chunk);
                }
                return fits;
            }
        }
        // The whole fits after all: it was the clock that ran out the first time.
        guard_.start(lifting_.max_cells, 1e9);
        attach(lifting_, chunk);
        return lifting_.largest();
    }

    void attach(const Lifting& lifting, Chunk& chunk) {
        if (lifting.largest() < 3) return;
        if (small_)
            attach_to(small_graph_, lifting, chunk);
        else
            attach_to(large_graph_, lifting, chunk);
    }

    void find(const SmallGraph& graph, CycleKind kind, int from, int to) {
        find_cycles(graph, kind, from, to, cycles_, guard_);
    }
    void find(const LargeGraph& graph, CycleKind kind, int from, int to) {
        find_cycles(graph, kind, from, to, cycles_, guard_, scratch_);
    }

    // All rings of size <= lifting.cycles are cycles, and all triangles are rings: the 2-cells of a union are
    // the cycles, the larger rings, and the triangles if cliques alone ask for them. No cell is found twice.
    template <class Graph>
    void attach_to(const Graph& graph, const Lifting& lifting, Chunk& chunk) {
        cycles_.clear();
        find(graph, CycleKind::simple, 3, lifting.cycles);
        find(graph, CycleKind::induced, std::max(3, lifting.cycles + 1),
             std::max(lifting.rings, lifting.cliques >= 3 ? 3 : 0));
        cycles_.sort();
        write_cycles(graph, lifting, chunk.dims[0]);
        if (lifting.cliques < 4) return;
        // Triangles are the shortest cycles, so they come first and in lexicographic order.
        from_.size = 3;
        std::int64_t triangles = 0;
        while (triangles < cycles_.size() && cycles_.length(triangles) == 3) ++triangles;
        from_.vertices.assign(cycles_.vertices.begin(), cycles_.vertices.begin() + 3 * triangles);
        for (int size = 4; size <= lifting.cliques && from_.count() > 0; ++size) {
            grow_cliques(graph, from_, to_, guard_);
            ChunkCells& cells = chunk.dims[size - 3];
            for (std::int64_t i = 0; i < to_.count(); ++i) cells.add(size);
            cells.idx.insert(cells.idx.end(), to_.faces.begin(), to_.faces.end());
            std::swap(from_, to_);
        }
    }

    void write_cycles(const SmallGraph& graph, const Lifting&, ChunkCells& cells) {
        for (std::int64_t i = 0; i < cycles_.size(); ++i) {
            const int length = cycles_.length(i);
            const std::int32_t* v = cycles_[i];
            cells.add(length);
            for (int j = 0; j < length; ++j)
                cells.idx.push_back(graph.edge_between(v[j], v[j + 1 == length ? 0 : j + 1]));
        }
    }

    // Parallel edges: a simple cycle may take any of them; a ring none, for the other would be a chord; two
    // parallel edges are a cycle of length two, and a ring where there is no third.
    void write_cycles(const LargeGraph& graph, const Lifting& lifting, ChunkCells& cells) {
        if (graph.multigraph) write_digons(graph, lifting, cells);
        for (std::int64_t i = 0; i < cycles_.size(); ++i) {
            const int length = cycles_.length(i);
            const std::int32_t* v = cycles_[i];
            runs_.clear();
            bool parallel = false;
            for (int j = 0; j < length; ++j) {
                const std::int64_t at = graph.find(v[j], v[j + 1 == length ? 0 : j + 1]);
                runs_.push_back({graph.first_edge[at], graph.first_edge[at + 1]});
                parallel |= runs_.back().second - runs_.back().first > 1;
            }
            if (parallel && length > lifting.cycles) continue;
            choice_.assign(length, 0);
            do {
                if (parallel) guard_.cell();
                cells.add(length);
                for (int j = 0; j < length; ++j)
                    cells.idx.push_back(graph.edges[runs_[j].first + choice_[j]]);
            } while (next_choice());
        }
    }

    bool next_choice() {
        for (std::size_t j = choice_.size(); j-- > 0;) {
            if (++choice_[j] < runs_[j].second - runs_[j].first) return true;
            choice_[j] = 0;
        }
        return false;
    }

    void write_digons(const LargeGraph& graph, const Lifting& lifting, ChunkCells& cells) {
        for (std::int32_t u = 0; u < graph.n; ++u)
            for (std::int64_t at = graph.ptr[u]; at < graph.ptr[u + 1]; ++at) {
                if (graph.nbr[at] < u) continue;
                const std::int64_t begin = graph.first_edge[at], end = graph.first_edge[at + 1];
                if (lifting.cycles < 3 && end - begin != 2) continue;
                for (std::int64_t a = begin; a < end; ++a)
                    for (std::int64_t b = a + 1; b < end; ++b) {
                        guard_.cell();
                        cells.add(2);
                        cells.idx.push_back(graph.edges[a]);
                        cells.idx.push_back(graph.edges[b]);
                    }
            }
    }

    void mark(const Chunk& chunk) {
        marks_.clear();
        for (const auto& cells : chunk.dims) marks_.push_back({cells.sizes.size(), cells.idx.size()});
    }
    void rollback(Chunk& chunk) {
        for (std::size_t d = 0; d < chunk.dims.size(); ++d) {
            chunk.dims[d].sizes.resize(marks_[d].first);
            chunk.dims[d].idx.resize(marks_[d].second);
        }
    }
    void close(Chunk& chunk) {
        for (std::size_t d = 0; d < chunk.dims.size(); ++d)
            chunk.dims[d].per_graph.push_back(
                static_cast<std::int32_t>(chunk.dims[d].sizes.size() - marks_[d].first));
    }

    Lifting lifting_;
    LiftOptions options_;
    Guard guard_;
    bool small_ = true;
    SmallGraph small_graph_;
    LargeGraph large_graph_;
    CycleList cycles_;
    CycleScratch scratch_;
    SimplexLevel from_, to_;
    std::vector<std::pair<std::int64_t, std::int64_t>> runs_;
    std::vector<std::int64_t> choice_;
    std::vector<std::pair<std::size_t, std::size_t>> marks_;
};

constexpr std::size_t kMaxIncidences = std::numeric_limits<std::int32_t>::max();

// Takes finished chunks in any order and appends them in theirs.
class Collector {
  public:
    Collector(Lifted& out, int dimension) : out_(out), dimension_(dimension) {
        out.dims.resize(std::max(0, dimension - 1));
        for (auto& cells : out.dims) {
            cells.cell_ptr.push_back(0);
            cells.boundary_ptr.push_back(0);
        }
    }

    // Returns an empty chunk to fill next.
    std::unique_ptr<Chunk> exchange(std::int64_t number, std::unique_ptr<Chunk> chunk) {
        const std::lock_guard lock(mutex_);
        waiting_.emplace(number, std::move(chunk));
        for (auto it = waiting_.begin(); it != waiting_.end() && it->first == next_;
             it = waiting_.erase(it), ++next_) {
            append(*it->second);
            it->second->clear();
            spare_.push_back(std::move(it->second));
        }
        return take();
    }

    std::unique_ptr<Chunk> fresh() {
        const std::lock_guard lock(mutex_);
        return take();
    }

  private:
    std::unique_ptr<Chunk> take() {
        if (spare_.empty()) return std::make_unique<Chunk>(dimension_);
        auto chunk = std::move(spare_.back());
        spare_.pop_back();
        return chunk;
    }

    void append(const Chunk& chunk) {
        for (std::size_t d = 0; d < out_.dims.size(); ++d) {
            PackedCells& to = out_.dims[d];
            const ChunkCells& from = chunk.dims[d];
            std::int64_t total = to.cell_ptr.back();
            std::int64_t* at = to.cell_ptr.extend(from.per_graph.size());
            for (const std::int32_t count : from.per_graph) *at++ = total += count;
            if (to.boundary_idx.size() + from.idx.size() > kMaxIncidences)
                throw std::length_error(
                    "the cells have more than 2^31 - 1 boundary incidences, which one store can not hold: "
                    "lift the "
                    "graphs in several parts");
            std::int32_t incidences = to.boundary_ptr.back();
            std::int32_t* row = to.boundary_ptr.extend(from.sizes.size());
            for (const std::int32_t size : from.sizes) *row++ = incidences += size;
            std::int32_t* idx = to.boundary_idx.extend(from.idx.size());
            if (!from.idx.empty()) std::memcpy(idx, from.idx.data(), from.idx.size() * sizeof(std::int32_t));
        }
        out_.incidents.insert(out_.incidents.end(), chunk.incidents.begin(), chunk.incidents.end());
    }

    Lifted& out_;
    int dimension_;
    std::mutex mutex_;
    std::int64_t next_ = 0;
    std::map<std::int64_t, std::unique_ptr<Chunk>> waiting_;
    std::vector<std::unique_ptr<Chunk>> spare_;
};

}  // namespace

Lifted lift(const Graphs& graphs, const Lifting& lifting, const LiftOptions& options, bool (*poll)()) {
    Lifted out;
    Cancellation cancellation(poll);
    Collector collector(out, lifting.dimension());
    const std::int64_t chunk_size =
        std::clamp<std::int64_t>(graphs.count / (64 * std::max(1, options.threads)), 1, 64);
    const std::int64_t num_chunks = (graphs.count + chunk_size - 1) / chunk_size;

    std::atomic<std::int64_t> stop_after{num_chunks};  // the first chunk with an error that ends the work
    struct Worker {
        Lifter lifter;
        std::unique_ptr<Chunk> chunk;
    };
    const auto make = [&](bool caller) {
        return std::unique_ptr<Worker>(
            new Worker{Lifter(lifting, options, cancellation, caller), collector.fresh()});
    };
    const auto work = [&](std::int64_t number, Worker& worker) {
        if (number > stop_after) return;
        const std::int64_t end = std::min(graphs.count, (number + 1) * chunk_size);
        for (std::int64_t g = number * chunk_size; g < end; ++g) {
            const GraphView view{graphs.vertex_ptr[g + 1] - graphs.vertex_ptr[g],
                                 graphs.edge_ptr[g + 1] - graphs.edge_ptr[g],
                                 graphs.ends + 2 * graphs.edge_ptr[g]};
            if (worker.lifter.lift(g, view, *worker.chunk)) continue;
            const Status status = worker.chunk->incidents.back().status;
            const bool budget = status == Status::too_many_cells || status == Status::too_slow;
            if (!(budget ? options.on_budget == OnBudget::stop : options.stop_at_error)) continue;
            for (std::int64_t seen = stop_after; number < seen;)
                if (stop_after.compare_exchange_weak(seen, number)) break;
            break;
        }
        worker.chunk = collector.exchange(number, std::move(worker.chunk));
    };
    for_each_chunk(num_chunks, options.threads, cancellation, make, work);
    out.cancelled = cancellation.requested();
    return out;
}

}  // namespace cwnet
