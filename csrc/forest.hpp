// Predictions of decision trees that are kept as arrays.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace cwnet {

// A number of these arrays that leads nowhere.
struct BrokenForest : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// Trees one after another, the nodes of each in the order in which a walk meets them that goes left first:
// the left child of node i is i + 1, and `next` has its right child. Of a leaf, `feature` is `kLeaf` and
// `next` is a row of `values`. Node numbers count from the start of a tree, which `tree_ptr` has.
struct Forest {
    static constexpr std::uint16_t kLeaf = 0xffff;

    std::int64_t trees, nodes, leaves, outputs;
    const std::int64_t* tree_ptr;
    const std::uint16_t* feature;
    const float* threshold;
    const std::uint32_t* next;
    const float* values;
};

// Mean and standard deviation over the trees of what they say of the rows of x, [rows, width]; both are
// [rows, outputs]. A row goes left where its feature is at most the threshold. O(rows · trees · depth).
//
// No number is trusted: a walk only ever goes forward within its tree, so it ends, and features and leaves
// are looked at before they are used. Sums are taken in the order of the trees, so the number of threads does
// not change them. Throws `BrokenForest`.
void predict_forest(const Forest& forest, const float* x, std::int64_t rows, std::int64_t width, double* mean,
                    double* std, int threads);

}  // namespace cwnet
