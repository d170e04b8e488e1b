// Numbers for sequences: the same number for the same sequence, by comparison and not by hash alone.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace cwnet {

class Interner {
  public:
    Interner() { clear(); }

    void clear() {
        words_.clear();
        start_.assign(1, 0);
        table_.assign(1024, -1);
    }
    std::int64_t size() const { return static_cast<std::int64_t>(start_.size()) - 1; }

    // begin(), push(word)..., number(): the number of the sequence pushed, a new one if it was not seen
    // before.
    void begin() { words_.resize(start_.back()); }
    void push(std::int32_t word) { words_.push_back(word); }
    std::int32_t number() {
        const std::int64_t begin = start_.back(), length = static_cast<std::int64_t>(words_.size()) - begin;
        const std::uint64_t hash = digest(begin, length);
        std::size_t mask = table_.size() - 1, at = hash & mask;
        for (; table_[at] >= 0; at = (at + 1) & mask)
            if (same(table_[at], begin, length)) {
                words_.resize(begin);
                return table_[at];
            }
        const auto fresh = static_cast<std::int32_t>(size());
        table_[at] = fresh;
        start_.push_back(static_cast<std::int64_t>(words_.size()));
        if (2 * static_cast<std::size_t>(size()) > table_.size()) grow();
        return fresh;
    }

  private:
    std::uint64_t digest(std::int64_t begin, std::int64_t length) const {
        std::uint64_t hash = 0x9e3779b97f4a7c15 ^ static_cast<std::uint64_t>(length);
        for (std::int64_t i = begin; i < begin + length; ++i) {
            hash = (hash ^ static_cast<std::uint32_t>(words_[i])) * 0xbf58476d1ce4e5b9;
            hash ^= hash >> 31;
        }
        return hash;
    }
    bool same(std::int32_t number, std::int64_t begin, std::int64_t length) const {
        return start_[number + 1] - start_[number] == length &&
               std::memcmp(words_.data() + start_[number], words_.data() + begin,
                           length * sizeof(std::int32_t)) == 0;
    }
    void grow() {
        table_.assign(2 * table_.size(), -1);
        const std::size_t mask = table_.size() - 1;
        for (std::int64_t i = 0; i < size(); ++i) {
            std::size_t at = digest(start_[i], start_[i + 1] - start_[i]) & mask;
            while (table_[at] >= 0) at = (at + 1) & mask;
            table_[at] = static_cast<std::int32_t>(i);
        }
    }

    std::vector<std::int32_t> words_;
    std::vector<std::int64_t> start_;
    std::vector<std::int32_t> table_;
};

}  // namespace cwnet
