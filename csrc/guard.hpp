// Budgets, time limits and cancellation of a search.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace cwnet {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

enum class Status : std::int32_t {
    ok = 0,
    bad_vertex = 1,        // an edge names a vertex that is not there
    self_loop = 2,         // an edge joins a vertex to itself
    repeated_edge = 3,     // two edges join the same vertices
    no_vertices = 4,       // the graph is empty
    too_many_cells = 5,    // the budget of cells is spent
    too_slow = 6,          // the budget of seconds is spent
    clique_multigraph = 7  // cliques were asked of a graph with parallel edges
};

// Thrown inside a search; never crosses into Python.
struct BudgetSpent {
    Status status;
};
struct Cancelled {};

// Shared by all threads of one call. `poll` is run by the calling thread only: it looks for Ctrl-C.
class Cancellation {
  public:
    explicit Cancellation(bool (*poll)()) : poll_(poll), last_(Clock::now()) {}

    bool requested() const { return flag_.load(std::memory_order_relaxed); }
    void request() { flag_.store(true, std::memory_order_relaxed); }

    void poll_if_due() {
        if (seconds_since(last_) < 0.05) return;
        last_ = Clock::now();
        if (poll_ && poll_()) request();
    }

  private:
    bool (*poll_)();
    std::atomic<bool> flag_{false};
    Clock::time_point last_;
};

// Counts the cells and the steps of the search on one graph. A step is one extension of a path; the clock
// is read every 4096 steps, so a step costs one increment and one branch.
class Guard {
  public:
    Guard(Cancellation& cancellation, bool caller) : cancellation_(cancellation), caller_(caller) {}

    void start(std::int64_t max_cells, double max_seconds) {
        max_cells_ = max_cells;
        max_seconds_ = max_seconds;
        cells_ = 0;
        // The clock is not read for a graph that needs fewer than 4096 steps: the next look starts it.
        started_ = false;
    }

    void step() {
        if ((++steps_ & 4095u) == 0) look();
    }

    void cell() {
        if (++cells_ > max_cells_) throw BudgetSpent{Status::too_many_cells};
    }

    std::int64_t cells() const { return cells_; }
    double seconds() const { return started_ ? seconds_since(start_) : 0.0; }

  private:
    void look() {
        if (caller_) cancellation_.poll_if_due();
        if (cancellation_.requested()) throw Cancelled{};
        if (!started_) {
            started_ = true;
            start_ = Clock::now();
        } else if (seconds_since(start_) > max_seconds_) {
            throw BudgetSpent{Status::too_slow};
        }
    }

    Cancellation& cancellation_;
    bool caller_;
    std::uint32_t steps_ = 0;
    std::int64_t max_cells_ = 0;
    double max_seconds_ = 0;
    std::int64_t cells_ = 0;
    bool started_ = false;
    Clock::time_point start_;
};

}  // namespace cwnet
