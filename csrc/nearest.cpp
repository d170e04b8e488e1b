#include "nearest.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "parallel.hpp"

namespace cwnet {

namespace {

constexpr std::int64_t kBlock = 16;

// The members that have a column, with how often: the transpose of their rows.
struct ByColumn {
    std::vector<std::int64_t> ptr;
    std::vector<std::uint32_t> member;
    std::vector<std::uint8_t> times;

    ByColumn(const Counted& members, std::int64_t columns)
        : ptr(columns + 1, 0), member(members.ptr[members.count]), times(members.ptr[members.count]) {
        for (std::int64_t i = 0; i < members.ptr[members.count]; ++i) ++ptr[members.column[i] + 1];
        for (std::int64_t c = 0; c < columns; ++c) ptr[c + 1] += ptr[c];
        std::vector<std::int64_t> at(ptr.begin(), ptr.end() - 1);
        for (std::int64_t m = 0; m < members.count; ++m) {
            for (std::int64_t i = members.ptr[m]; i < members.ptr[m + 1]; ++i) {
                const std::int64_t place = at[members.column[i]]++;
                member[place] = static_cast<std::uint32_t>(m);
                times[place] = members.times[i];
            }
        }
    }
};

std::vector<std::int64_t> totals(const Counted& rows) {
    std::vector<std::int64_t> found(rows.count, 0);
    for (std::int64_t r = 0; r < rows.count; ++r)
        for (std::int64_t i = rows.ptr[r]; i < rows.ptr[r + 1]; ++i) found[r] += rows.times[i];
    return found;
}

// What a thread needs: the counts that a query shares with every member, and similarities.
struct Scratch {
    std::vector<std::int32_t> shared;
    std::vector<float> found;
};

}  // namespace

void nearest_similarity(const Counted& members, const Counted& queries, std::int64_t columns, std::int64_t k,
                        float* similarity, int threads) {
    const ByColumn index(members, columns);
    const std::vector<std::int64_t> member_total = totals(members), query_total = totals(queries);
    const std::int64_t nearest = std::min(k, members.count);

    const auto one = [&](std::int64_t query, Scratch& scratch) {
        std::fill(scratch.shared.begin(), scratch.shared.end(), 0);
        for (std::int64_t i = queries.ptr[query]; i < queries.ptr[query + 1]; ++i) {
            const std::uint8_t times = queries.times[i];
            const std::int64_t column = queries.column[i];
            for (std::int64_t place = index.ptr[column]; place < index.ptr[column + 1]; ++place)
                scratch.shared[index.member[place]] += std::min(times, index.times[place]);
        }
        for (std::int64_t m = 0; m < members.count; ++m) {
            const std::int64_t either = query_total[query] + member_total[m] - scratch.shared[m];
            // Two molecules of no column are the same.
            scratch.found[m] =
                either ? static_cast<float>(scratch.shared[m]) / static_cast<float>(either) : 1.0f;
        }
        std::partial_sort(scratch.found.begin(), scratch.found.begin() + nearest, scratch.found.end(),
                          std::greater<>());
        double sum = 0;
        for (std::int64_t i = 0; i < nearest; ++i) sum += scratch.found[i];
        similarity[query] = nearest ? static_cast<float>(sum / static_cast<double>(nearest)) : 0.0f;
    };

    Cancellation never(nullptr);
    for_each_chunk((queries.count + kBlock - 1) / kBlock, threads, never,
                   [&](bool) {
                       return std::make_unique<Scratch>(Scratch{std::vector<std::int32_t>(members.count),
                                                                std::vector<float>(members.count)});
                   },
                   [&](std::int64_t chunk, Scratch& scratch) {
                       const std::int64_t first = chunk * kBlock,
                                          last = std::min(first + kBlock, queries.count);
                       for (std::int64_t query = first; query < last; ++query) one(query, scratch);
                   });
}

}  // namespace cwnet
