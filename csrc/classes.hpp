// Classes of cells of one colour, kept from round to round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hashing.hpp"

namespace cwnet {

// A round never joins two classes, because a cell's own colour is part of its next one. So a class can only
// split, and it does where a cell has another colour than the first cell of its class. Cells in a class of
// their own are not looked at: O(cells) per round, and less and less of them. Whether a cell has moved is
// hard to foresee, so there are hardly any branches.
class Classes {
  public:
    // Cells of one colour are one class.
    void start(const Colour* colour, std::int32_t cells) {
        if (static_cast<std::int32_t>(members_.size()) < cells) {
            members_.resize(cells);
            moved_.resize(cells);
        }
        for (std::int32_t cell = 0; cell < cells; ++cell) members_[cell] = {cell, 0};
        size_ = cells;
        update(colour);
    }

    // Splits classes; returns whether any was.
    bool update(const Colour* colour) {
        Member* members = members_.data();
        std::int32_t* moved = moved_.data();
        std::int32_t stay = 0, count = 0;
        for (std::int32_t i = 0, end = size_; i < end; ++i) {
            const Member m = members[i];
            const bool same = equal(colour[m.cell], colour[m.first]);
            members[stay] = m;
            moved[count] = m.cell;
            stay += same && m.cell != m.first;
            count += !same;
        }
        if (count > 0) {
            std::size_t room = 16;
            while (room < 4 * static_cast<std::size_t>(count)) room *= 2;
            table_.assign(room, -1);
            std::int32_t* table = table_.data();
            for (std::int32_t i = 0; i < count; ++i) {
                const std::int32_t cell = moved[i];
                std::size_t at = colour[cell].a & (room - 1);
                std::int32_t first = table[at] < 0 ? cell : table[at];
                while (!equal(colour[first], colour[cell])) {
                    at = (at + 1) & (room - 1);
                    first = table[at] < 0 ? cell : table[at];
                }
                table[at] = first;
                members[stay] = {cell, first};
                stay += cell != first;
            }
        }
        size_ = stay;
        return count > 0;
    }

    // Whether every cell has a class of its own, which no round can split.
    bool discrete() const { return size_ == 0; }

  private:
    struct Member {
        std::int32_t cell, first;
    };
    static bool equal(const Colour& a, const Colour& b) { return ((a.a ^ b.a) | (a.b ^ b.b)) == 0; }

    std::vector<Member> members_;  // all cells but the first of each class
    std::int32_t size_ = 0;
    std::vector<std::int32_t> moved_, table_;
};

}  // namespace cwnet
