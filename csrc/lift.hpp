// Lifting of many graphs to packed cell complexes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "guard.hpp"

namespace cwnet {

// An array that grows by realloc (which remaps pages instead of copying them once the array is large), so
// that its peak memory is its size.
template <class T>
class GrowingArray {
  public:
    GrowingArray() = default;
    GrowingArray(const GrowingArray&) = delete;
    GrowingArray& operator=(const GrowingArray&) = delete;
    GrowingArray(GrowingArray&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)),
          capacity_(std::exchange(other.capacity_, 0)) {}
    GrowingArray& operator=(GrowingArray&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    ~GrowingArray() { std::free(data_); }

    T* extend(std::size_t count) {
        if (size_ + count > capacity_) {
            const std::size_t wanted = std::max(size_ + count, capacity_ + capacity_ / 2 + 16);
            T* grown = static_cast<T*>(std::realloc(data_, wanted * sizeof(T)));
            if (!grown) throw std::bad_alloc();
            data_ = grown;
            capacity_ = wanted;
        }
        T* at = data_ + size_;
        size_ += count;
        return at;
    }
    void push_back(T value) { *extend(1) = value; }
    T back() const { return data_[size_ - 1]; }
    std::size_t size() const { return size_; }
    const T* data() const { return data_; }
    void cut(std::size_t size) { size_ = std::min(size, size_); }

    // Gives the memory away, to be released by std::free.
    T* release() {
        if (size_ == 0) extend(1);  // never a null pointer
        if (T* shrunk = static_cast<T*>(std::realloc(data_, std::max<std::size_t>(size_, 1) * sizeof(T))))
            data_ = shrunk;
        size_ = capacity_ = 0;
        return std::exchange(data_, nullptr);
    }

  private:
    T* data_ = nullptr;
    std::size_t size_ = 0, capacity_ = 0;
};

// Which cells to attach: rings and cycles of at most so many edges, cliques of at most so many vertices (0:
// none).
struct Lifting {
    int rings = 0, cycles = 0, cliques = 0;
    std::int64_t max_cells = 0;
    double max_seconds = 0;

    // The lifting that leaves out every cell larger than `bound`.
    Lifting clipped(int bound) const {
        return {std::min(rings, bound), std::min(cycles, bound), std::min(cliques, bound), max_cells,
                max_seconds};
    }
    int largest() const { return std::max({rings, cycles, cliques}); }
    int dimension() const { return cliques >= 4 ? cliques - 1 : (largest() >= 3 ? 2 : 1); }
};

// A packed set of graphs; see ComplexStore in Python.
struct Graphs {
    std::int64_t count = 0;
    const std::int64_t* vertex_ptr = nullptr;  // [count + 1]
    const std::int64_t* edge_ptr = nullptr;    // [count + 1]
    const std::int32_t* ends = nullptr;        // [edges, 2], vertex numbers local to the graph
};

// The cells of one dimension of all complexes.
struct PackedCells {
    GrowingArray<std::int64_t> cell_ptr;      // [count + 1]
    GrowingArray<std::int32_t> boundary_ptr;  // [cells + 1]
    GrowingArray<std::int32_t> boundary_idx;  // local to the complex
};

// A graph that could not be lifted, or not wholly.
struct Incident {
    std::int64_t graph;
    Status status;
    std::int64_t edge, other_edge;  // for a bad edge
    std::int64_t cells;             // for a spent budget: what was reached
    double seconds;
    int kept;  // cells of at most this size were kept, all of them; -1: none
};

struct Lifted {
    std::vector<PackedCells> dims;  // dimensions 2, 3, ...
    std::vector<Incident> incidents;
    bool cancelled = false;
};

// What to do with a graph that exceeds its budget.
enum class OnBudget : std::int32_t { stop = 0, skip = 1, truncate = 2 };

struct LiftOptions {
    int threads = 1;
    bool keep_repeated = false;  // accept multigraphs
    bool stop_at_error = false;  // stop at the first bad graph
    OnBudget on_budget = OnBudget::stop;
};

// Cells are in the same order whatever the number of threads; `poll` is called now and then by the calling
// thread and stops the work when it returns true.
Lifted lift(const Graphs& graphs, const Lifting& lifting, const LiftOptions& options, bool (*poll)());

}  // namespace cwnet
