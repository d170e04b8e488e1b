#include "forest.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "parallel.hpp"

namespace cwnet {

namespace {

// So many rows go through a tree while it is in the cache.
constexpr std::int64_t kBlock = 64;

const float* leaf_of(const Forest& forest, std::int64_t tree, const float* row, std::int64_t width) {
    const std::int64_t start = forest.tree_ptr[tree];
    const auto count = static_cast<std::uint32_t>(forest.tree_ptr[tree + 1] - start);
    const std::uint16_t* feature = forest.feature + start;
    const float* threshold = forest.threshold + start;
    const std::uint32_t* next = forest.next + start;
    std::uint32_t node = 0;
    while (node < count) {
        const std::uint16_t column = feature[node];
        if (column == Forest::kLeaf) {
            if (next[node] >= forest.leaves) throw BrokenForest("a leaf of a tree has no values");
            return forest.values + next[node] * forest.outputs;
        }
        if (column >= width) throw BrokenForest("a tree asks for a column that is not there");
        const std::uint32_t right = next[node];
        if (right <= node) throw BrokenForest("a tree goes back to a node before");
        node = row[column] <= threshold[node] ? node + 1 : right;
    }
    throw BrokenForest("a tree goes on to a node that is not there");
}

void predict_block(const Forest& forest, const float* x, std::int64_t rows, std::int64_t width, double* mean,
                   double* std) {
    std::fill(mean, mean + rows * forest.outputs, 0.0);
    std::fill(std, std + rows * forest.outputs, 0.0);
    // Welford's update: the squares of large numbers would swallow a small spread.
    for (std::int64_t tree = 0; tree < forest.trees; ++tree) {
        for (std::int64_t row = 0; row < rows; ++row) {
            const float* said = leaf_of(forest, tree, x + row * width, width);
            for (std::int64_t k = 0; k < forest.outputs; ++k) {
                double& average = mean[row * forest.outputs + k];
                const double before = said[k] - average;
                average += before / static_cast<double>(tree + 1);
                std[row * forest.outputs + k] += before * (said[k] - average);
            }
        }
    }
    const auto trees = static_cast<double>(std::max<std::int64_t>(forest.trees, 1));
    for (std::int64_t i = 0; i < rows * forest.outputs; ++i) std[i] = std::sqrt(std[i] / trees);
}

struct Nothing {};

}  // namespace

void predict_forest(const Forest& forest, const float* x, std::int64_t rows, std::int64_t width, double* mean,
                    double* std, int threads) {
    Cancellation never(nullptr);
    for_each_chunk((rows + kBlock - 1) / kBlock, threads, never,
                   [](bool) { return std::make_unique<Nothing>(); },
                   [&](std::int64_t chunk, Nothing&) {
                       const std::int64_t first = chunk * kBlock, count = std::min(kBlock, rows - first);
                       predict_block(forest, x + first * width, count, width, mean + first * forest.outputs,
                                     std + first * forest.outputs);
                   });
}

}  // namespace cwnet
