#include "refine.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "classes.hpp"
#include "interner.hpp"
#include "parallel.hpp"

namespace cwnet {

namespace {

// ------------------------------------------------------------------------------------------------ hashing

inline u128 wide(Colour c) {
    return static_cast<u128>(c.a) << 64 | c.b;
}
inline Colour narrow(u128 x) {
    return {static_cast<u64>(x >> 64), static_cast<u64>(x)};
}

// One word of each lane of a 128-bit value, under keys i and i + 1.
inline u64 lane(Colour c, int i) {
    return fold(c.a ^ kKey[i], c.b ^ kKey[i + 1]);
}

// A hash of an ordered sequence of 128-bit values, one call of `add` each.
class Hasher {
  public:
    explicit Hasher(Colour seed) : a_(lane(seed, 0)), b_(lane(seed, 2)) {}
    void add(u128 value, int position) {
        const Colour c = narrow(value);
        // Multiplying by odd constants of the position keeps the order: (x, y) and (y, x) differ.
        a_ += lane(c, 4) * (kKey[position & 15] | 1);
        b_ += lane(c, 8) * (kKey[(position + 5) & 15] | 1);
    }
    Colour value() const { return finish(a_, b_); }

  private:
    u64 a_, b_;
};

// The message of a neighbour through a shared cell. Colours are uniform bits already, so one product that
// mixes the two is enough; `shift` tells upper from lower messages.
inline u128 message(Colour neighbour, Colour shared, int shift) {
    const u64 x = neighbour.a ^ rotate(shared.b, shift) ^ kKey[2];
    const u64 y = neighbour.b ^ rotate(shared.a, shift) ^ kKey[6];
    return static_cast<u128>(x) * y;
}

Colour initial_colour(Initial initial, int d, const std::int64_t* label) {
    const u64 dimension = initial == Initial::dimension || label ? static_cast<u64>(d) + 1 : 0;
    return hash_words(dimension, label ? 1 : 0, label ? static_cast<u64>(*label) : 0);
}

// -------------------------------------------------------------------------------- one complex, flattened

// The cells of all dimensions in one row, with boundaries in these numbers.
struct Flat {
    std::int64_t num_cells = 0;
    std::int64_t num_vertices = 0;
    std::int64_t pairs_end = 0;      // the cells from the vertices to here have two faces each: the edges
    std::vector<std::int64_t> ptr;   // [cells + 1]
    std::vector<std::int32_t> face;  // flat numbers of boundary cells

    // Throws where a boundary names a cell that is not there: nothing behind this looks again.
    void load(const Complexes& complexes, std::int64_t g) {
        num_vertices = num_cells = complexes.cell_ptr[0][g + 1] - complexes.cell_ptr[0][g];
        ptr.assign(1 + num_vertices, 0);
        std::int64_t below = 0, incidences = 0;
        for (int d = 1; d < complexes.dims(); ++d) {
            const std::int64_t first = complexes.cell_ptr[d][g], last = complexes.cell_ptr[d][g + 1];
            const std::int32_t* rows = complexes.boundary_ptr[d - 1];
            const std::int64_t begin = rows[first], end = rows[last];
            const auto faces = static_cast<std::uint32_t>(num_cells - below);
            ptr.resize(1 + num_cells + last - first);
            std::int64_t* at = ptr.data() + 1 + num_cells;
            for (std::int64_t i = first; i < last; ++i) *at++ = incidences - begin + rows[i + 1];
            face.resize(incidences + end - begin);
            std::int32_t* to = face.data() + incidences;
            const std::int32_t* idx = complexes.boundary_idx[d - 1];
            bool missing = false;
            for (std::int64_t i = begin; i < end; ++i) {
                missing |= static_cast<std::uint32_t>(idx[i]) >= faces;
                *to++ = static_cast<std::int32_t>(below + idx[i]);
            }
            if (missing) throw std::out_of_range("a boundary names a cell that is not in its complex");
            incidences += end - begin;
            below = num_cells;
            num_cells += last - first;
        }
        pairs_end = num_vertices;
        while (pairs_end < num_cells && ptr[pairs_end + 1] - ptr[pairs_end] == 2) ++pairs_end;
    }
};

template <class F>
void for_each_cell(const Complexes& complexes, std::int64_t g, F&& f) {
    for (int d = 0; d < complexes.dims(); ++d)
        for (std::int64_t i = complexes.cell_ptr[d][g]; i < complexes.cell_ptr[d][g + 1]; ++i)
            f(d, complexes.labels[d] ? complexes.labels[d] + i : nullptr);
}

// ------------------------------------------------------------------------------------------------ fast mode

class FastRefiner {
  public:
    FastRefiner(const Complexes& complexes, const RefineOptions& options)
        : complexes_(complexes), options_(options) {
        for (int d = 0; d < complexes.dims(); ++d)
            unlabelled_.push_back(initial_colour(options.initial, d, nullptr));
    }

    struct Result {
        std::int32_t rounds = 0;
        std::vector<Colour> histograms;
        std::vector<Colour> colours;
    };

    void run(std::int64_t g, Result& result) {
        flat_.load(complexes_, g);
        result.histograms.clear();
        result.colours.clear();
        start(g);
        record(result);
        const bool usual = options_.adjacencies.bits() == Adjacencies{}.bits();
        if (options_.until_stable) classes_.start(colour_.data(), static_cast<std::int32_t>(colour_.size()));
        int round = 0;
        while (options_.max_rounds < 0 || round < options_.max_rounds) {
            usual ? step<true>() : step<false>();
            record(result);
            if (options_.until_stable && !classes_.update(colour_.data())) break;
            ++round;
        }
        result.rounds = round;
    }

  private:
    void start(std::int64_t g) {
        colour_.resize(flat_.num_cells);
        Colour* at = colour_.data();
        for (int d = 0; d < complexes_.dims(); ++d) {
            const std::int64_t begin = complexes_.cell_ptr[d][g], end = complexes_.cell_ptr[d][g + 1];
            const std::int64_t* labels = complexes_.labels[d];
            if (!labels) at = std::fill_n(at, end - begin, unlabelled_[d]);
            for (std::int64_t i = begin; labels && i < end; ++i)
                *at++ = initial_colour(options_.initial, d, labels + i);
        }
        upper_.resize(std::max(upper_.size(), colour_.size()), 0);
    }

    Colour histogram() const {
        u128 sum = 0;
        for (const Colour& c : colour_) sum += wide(c);
        Hasher hash(narrow(sum));
        hash.add(static_cast<u128>(colour_.size()), 0);
        return hash.value();
    }

    void record(Result& result) const {
        if (options_.keep_history) result.histograms.push_back(histogram());
        if (options_.keep_colours)
            result.colours.insert(result.colours.end(), colour_.begin(), colour_.end());
    }

    // One round, from the top dimension down: when a cell's turn comes, its cofaces have sent it what it
    // needs of them, and its faces still have their colours of the round before. So colours are replaced in
    // place.
    template <bool usual>
    void step() {
        const Adjacencies use = usual ? Adjacencies{} : options_.adjacencies;
        const std::int64_t n = flat_.num_cells;
        const std::int64_t* ptr = flat_.ptr.data();
        const std::int32_t* face = flat_.face.data();
        Colour* colour = colour_.data();
        if (use.coboundary) coboundary_.assign(n, 0);
        if (use.lower) {
            shared_.assign(n, 0);
            for (std::int64_t cell = flat_.num_vertices; cell < n; ++cell)
                for (std::int64_t i = ptr[cell]; i < ptr[cell + 1]; ++i)
                    shared_[face[i]] += message(colour[cell], colour[face[i]], 13);
        }
        u128* upper = upper_.data();

        const auto replace = [&](std::int64_t cell, u128 boundary, u128 lower) {
            Hasher hash(colour[cell]);
            if (use.boundary) hash.add(boundary, 1);
            if (use.coboundary) hash.add(coboundary_[cell], 2);
            if (use.lower) hash.add(lower, 3);
            if (use.upper) hash.add(std::exchange(upper[cell], 0), 4);
            colour[cell] = hash.value();
        };
        const auto visit = [&](std::int64_t cell, std::int64_t begin, std::int64_t end) {
            const Colour own = colour[cell];
            u128 boundary = 0, lower = 0, all = 0;
            if (use.upper) message_.resize(std::max<std::size_t>(message_.size(), end - begin));
            u128* sent = message_.data();
            for (std::int64_t i = begin; i < end; ++i) {
                const Colour other = colour[face[i]];
                if (use.boundary) boundary += wide(other);
                if (use.coboundary) coboundary_[face[i]] += wide(own);
                if (use.lower) lower += shared_[face[i]] - message(own, other, 13);
                if (use.upper) all += sent[i - begin] = message(other, own, 29);
            }
            if (use.upper)
                for (std::int64_t i = begin; i < end; ++i) upper[face[i]] += all - sent[i - begin];
            replace(cell, boundary, lower);
        };
        // Half of the cells of a molecule are edges, where there is nothing to add up.
        const auto visit_edge = [&](std::int64_t cell, std::int32_t u, std::int32_t v) {
            const Colour own = colour[cell], at_u = colour[u], at_v = colour[v];
            upper[u] += message(at_v, own, 29);
            upper[v] += message(at_u, own, 29);
            replace(cell, wide(at_u) + wide(at_v), 0);
        };
        const std::int64_t edges_end = usual ? flat_.pairs_end : flat_.num_vertices;
        for (std::int64_t cell = n; cell-- > edges_end;) visit(cell, ptr[cell], ptr[cell + 1]);
        for (std::int64_t cell = edges_end; cell-- > flat_.num_vertices;)
            visit_edge(cell, face[ptr[cell]], face[ptr[cell] + 1]);
        for (std::int64_t cell = flat_.num_vertices; cell-- > 0;) replace(cell, 0, 0);
    }

    const Complexes& complexes_;
    RefineOptions options_;
    Flat flat_;
    Classes classes_;
    std::vector<Colour> unlabelled_;  // the first colour of a cell without a label, per dimension
    std::vector<Colour> colour_;
    std::vector<u128> upper_;  // zero between rounds
    std::vector<u128> coboundary_, shared_, message_;
};

}  // namespace

Refined refine_fast(const Complexes& complexes, const RefineOptions& options, bool (*poll)()) {
    const std::int64_t n = complexes.count;
    Refined out;
    out.rounds.resize(n);
    out.history_ptr.assign(1, 0);
    out.colour_ptr.assign(1, 0);
    const std::int64_t chunk = std::clamp<std::int64_t>(n / (8 * options.threads), 1, 128);
    const std::int64_t num_chunks = (n + chunk - 1) / chunk;
    struct Part {
        std::vector<std::int32_t> counts;
        std::vector<Colour> histograms, colours;
        std::vector<std::int64_t> colour_counts;
    };
    std::vector<Part> parts(num_chunks);
    Cancellation cancellation(poll);
    const auto make = [&](bool) { return std::make_unique<FastRefiner>(complexes, options); };
    for_each_chunk(
        num_chunks, options.threads, cancellation, make, [&](std::int64_t number, FastRefiner& refiner) {
            Part& part = parts[number];
            FastRefiner::Result result;
            for (std::int64_t g = number * chunk; g < std::min(n, (number + 1) * chunk); ++g) {
                refiner.run(g, result);
                out.rounds[g] = result.rounds;
                part.counts.push_back(static_cast<std::int32_t>(result.histograms.size()));
                part.histograms.insert(part.histograms.end(), result.histograms.begin(),
                                       result.histograms.end());
                part.colour_counts.push_back(static_cast<std::int64_t>(result.colours.size()));
                part.colours.insert(part.colours.end(), result.colours.begin(), result.colours.end());
            }
        });
    out.cancelled = cancellation.requested();
    if (out.cancelled) return out;
    for (Part& part : parts) {
        for (const std::int32_t count : part.counts)
            out.history_ptr.push_back(out.history_ptr.back() + count);
        out.histograms.insert(out.histograms.end(), part.histograms.begin(), part.histograms.end());
        for (const std::int64_t count : part.colour_counts)
            out.colour_ptr.push_back(out.colour_ptr.back() + count);
        out.colours.insert(out.colours.end(), part.colours.begin(), part.colours.end());
        part = {};
    }
    return out;
}

// ------------------------------------------------------------------------------------------------ exact mode

RefinedExactly refine_exact(const Complexes& complexes, const RefineOptions& options, bool (*poll)()) {
    using Pair = std::pair<std::int32_t, std::int32_t>;
    RefinedExactly out;
    Cancellation cancellation(poll);
    Interner interner;
    std::vector<std::int32_t> colour, next;
    out.complex_ptr.assign(1, 0);
    for (std::int64_t g = 0; g < complexes.count; ++g) {
        for_each_cell(complexes, g, [&](int d, const std::int64_t* label) {
            const bool by_dimension = options.initial == Initial::dimension || label;
            const std::int64_t value = label ? *label : 0;
            const std::int32_t key[4] = {by_dimension ? d + 1 : 0, label != nullptr,
                                         static_cast<std::int32_t>(value >> 32),
                                         static_cast<std::int32_t>(value & 0xffffffff)};
            interner.begin();
            for (const std::int32_t word : key) interner.push(word);
            colour.push_back(interner.number());
        });
        out.complex_ptr.push_back(static_cast<std::int64_t>(colour.size()));
    }
    std::int64_t classes = interner.size();
    out.colours.push_back(colour);

    Flat flat;
    std::vector<std::vector<std::int32_t>> cofaces;
    std::vector<std::int32_t> single;
    std::vector<Pair> pairs;
    const Adjacencies& use = options.adjacencies;
    const auto push_single = [&] {
        std::sort(single.begin(), single.end());
        interner.push(static_cast<std::int32_t>(single.size()));
        for (const std::int32_t c : single) interner.push(c);
        single.clear();
    };
    const auto push_pairs = [&] {
        std::sort(pairs.begin(), pairs.end());
        interner.push(static_cast<std::int32_t>(pairs.size()));
        for (const auto& [c, shared] : pairs) {
            interner.push(c);
            interner.push(shared);
        }
        pairs.clear();
    };
    int round = 0;
    while (options.max_rounds < 0 || round < options.max_rounds) {
        interner.clear();
        next.clear();
        for (std::int64_t g = 0; g < complexes.count; ++g) {
            cancellation.poll_if_due();
            if (cancellation.requested()) {
                out.cancelled = true;
                return out;
            }
            flat.load(complexes, g);
            const std::int32_t* own = colour.data() + out.complex_ptr[g];
            const auto boundary = [&](std::int64_t cell) {
                return std::pair{flat.face.data() + flat.ptr[cell], flat.face.data() + flat.ptr[cell + 1]};
            };
            cofaces.assign(flat.num_cells, {});
            for (std::int64_t cell = 0; cell < flat.num_cells; ++cell)
                for (auto [it, end] = boundary(cell); it != end; ++it)
                    cofaces[*it].push_back(static_cast<std::int32_t>(cell));
            for (std::int64_t cell = 0; cell < flat.num_cells; ++cell) {
                interner.begin();
                interner.push(own[cell]);
                if (use.boundary) {
                    for (auto [it, end] = boundary(cell); it != end; ++it) single.push_back(own[*it]);
                    push_single();
                }
                if (use.coboundary) {
                    for (const std::int32_t coface : cofaces[cell]) single.push_back(own[coface]);
                    push_single();
                }
                if (use.lower) {
                    for (auto [it, end] = boundary(cell); it != end; ++it)
                        for (const std::int32_t other : cofaces[*it])
                            if (other != cell) pairs.emplace_back(own[other], own[*it]);
                    push_pairs();
                }
                if (use.upper) {
                    for (const std::int32_t coface : cofaces[cell])
                        for (auto [it, end] = boundary(coface); it != end; ++it)
                            if (*it != cell) pairs.emplace_back(own[*it], own[coface]);
                    push_pairs();
                }
                next.push_back(interner.number());
            }
        }
        colour.swap(next);
        out.colours.push_back(colour);
        if (options.until_stable && interner.size() == classes) break;
        classes = interner.size();
        ++round;
    }
    out.rounds = round;
    return out;
}

}  // namespace cwnet
