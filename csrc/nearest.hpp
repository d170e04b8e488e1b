// How like the molecules of a set others are: Tanimoto similarity of counted fingerprints.
#pragma once

#include <cstdint>

namespace cwnet {

// Counted fingerprints as compressed sparse rows: columns that rise within a row, and how often each occurs.
struct Counted {
    std::int64_t count;
    const std::int64_t* ptr;
    const std::uint16_t* column;
    const std::uint8_t* times;
};

// The mean similarity Σ min(a, b) / Σ max(a, b) of every query to the `k` members it is most like, or to all
// if they are fewer; [queries].
//
// Members are looked up by column, so a query costs as much as its columns have members. Both must have been
// checked: pointers that rise, columns below `columns`.
void nearest_similarity(const Counted& members, const Counted& queries, std::int64_t columns, std::int64_t k,
                        float* similarity, int threads);

}  // namespace cwnet
