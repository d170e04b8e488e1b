#include "refine.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <utility>

#include "interner.hpp"
#include "parallel.hpp"

namespace cwnet {

namespace {

// ------------------------------------------------------------------------------------------------ hashing

// Changing any of this changes every certificate: raise the version with it, here and in Python.
constexpr std::uint64_t kCertificateVersion = 1;

using u64 = std::uint64_t;
using u128 = unsigned __int128;

constexpr u64 kKey[16] = {
    0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
    0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3, 0x589965cc75374cc3,
    0x1d8e4e27c47d124f, 0xeb44accab455d165, 0x2d358dccaa6c78a5, 0x8bb84b93962eacc9,
    0x4b33a62ed433d4a3, 0x4d5a2da51de1aa47, 0xaaaaaaaaaaaaaaab, 0xc2b2ae3d27d4eb4f,
};

inline u64 fold(u64 x, u64 y) {
    const u128 product = static_cast<u128>(x) * y;
    return static_cast<u64>(product) ^ static_cast<u64>(product >> 64);
}

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

inline Colour finish(u64 a, u64 b) {
    return {fold(a ^ kKey[12], b ^ kKey[13]), fold(b ^ kKey[14], (a << 32 | a >> 32) ^ kKey[15])};
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

inline Colour hash_words(u64 x, u64 y, u64 z) {
    return finish(fold(x ^ kKey[0], kKey[1]) + fold(y ^ kKey[4], kKey[5]),
                  fold(x ^ kKey[2], kKey[3]) + fold(z ^ kKey[6], kKey[7]));
}

// The message of a neighbour through a shared cell. Colours are uniform bits already, so one product that
// mixes the two is enough; `shift` tells upper from lower messages.
inline u128 message(Colour neighbour, Colour shared, int shift) {
    const u64 x = neighbour.a ^ (shared.b << shift | shared.b >> (64 - shift)) ^ kKey[2];
    const u64 y = neighbour.b ^ (shared.a << shift | shared.a >> (64 - shift)) ^ kKey[6];
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
    std::vector<std::int64_t> count;  // cells of each dimension
    std::int64_t pairs_end = 0;       // the cells from the vertices to here have two faces each: the edges
    std::vector<std::int64_t> ptr;    // [cells + 1]
    std::vector<std::int32_t> face;   // flat numbers of boundary cells

    // Throws where a boundary names a cell that is not there: nothing behind this looks again.
    void load(const Complexes& complexes, std::int64_t g) {
        num_vertices = num_cells = complexes.cell_ptr[0][g + 1] - complexes.cell_ptr[0][g];
        count.assign(1, num_vertices);
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
            count.push_back(last - first);
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

// Classes of cells of one colour, kept from round to round. A round never joins two classes, because a cell's
// own colour is part of its next one. So a class can only split, and it does where a cell has another colour
// than the first cell of its class. Cells in a class of their own are not looked at: O(cells) per round, and
// less and less of them. Whether a cell has moved is hard to foresee, so there are hardly any branches.
class Classes {
  public:
    // Cells of one colour are one class. Returns how many classes there are.
    std::int64_t start(const std::vector<Colour>& colours) {
        const auto n = static_cast<std::int64_t>(colours.size());
        clear(n);
        for (std::int32_t cell = 0; cell < n; ++cell) add(cell, 0);
        update(colours);
        return n - size_;
    }

    // For a caller who knows the classes: no cells, and then one more, with the first cell of its class.
    void clear(std::int64_t cells) {
        if (static_cast<std::int64_t>(members_.size()) < cells) {
            members_.resize(cells);
            moved_.resize(cells);
        }
        size_ = 0;
    }
    void add(std::int32_t cell, std::int32_t first) {
        members_[size_] = {cell, first};
        size_ += cell != first;
    }

    // Splits classes; returns whether any was.
    bool update(const std::vector<Colour>& colours) {
        const Colour* colour = colours.data();
        Member* members = members_.data();
        std::int32_t* moved = moved_.data();
        std::int32_t stay = 0, count = 0;
        for (std::int32_t i = 0, end = size_; i < end; ++i) {
            const Member m = members[i];
            const bool same = equal(colour[m.cell], colour[m.first]);
            members[stay] = m;
            moved[count] = m.cell;
            stay += same;
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

  private:
    struct Member {
        std::int32_t cell, first;
    };
    static bool equal(const Colour& a, const Colour& b) { return ((a.a ^ b.a) | (a.b ^ b.b)) == 0; }

    std::vector<Member> members_;  // all cells but the first of each class
    std::int32_t size_ = 0;
    std::vector<std::int32_t> moved_, table_;
};

// ------------------------------------------------------------------------------------------------ fast mode

class FastRefiner {
  public:
    FastRefiner(const Complexes& complexes, const RefineOptions& options)
        : complexes_(complexes), options_(options) {
        for (int d = 0; d < complexes.dims(); ++d)
            unlabelled_.push_back(initial_colour(options.initial, d, nullptr));
        for (const std::int64_t* labels : complexes.labels) labelled_ |= labels != nullptr;
    }

    struct Result {
        std::int32_t rounds = 0;
        Colour certificate;
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
        const bool known = usual && !labelled_;
        if (options_.until_stable && !known) classes_.start(colour_);
        int round = 0;
        while (options_.max_rounds < 0 || round < options_.max_rounds) {
            bool split = true;
            if (known && round == 0) {
                split = first_step();
            } else {
                usual ? step<true>() : step<false>();
                if (options_.until_stable) split = classes_.update(colour_);
            }
            record(result);
            if (options_.until_stable && !split) break;
            ++round;
        }
        result.rounds = round;
        Hasher certificate(options_.keep_history ? result.histograms.back() : histogram());
        certificate.add(static_cast<u128>(kCertificateVersion << 8 | options_.adjacencies.bits()), 1);
        certificate.add(static_cast<u128>(round), 2);
        certificate.add(static_cast<u128>(flat_.num_cells), 3);
        result.certificate = certificate.value();
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

    // The first round of a complex without labels, where colours depend on little: on a cell's number of
    // faces k, the number w of its upper neighbours, and its dimension d if that is in the first colours.
    // They are the same in all complexes, so most of them have been met before. Returns whether cells of one
    // colour have come apart.
    bool first_step() {
        const std::int64_t n = flat_.num_cells;
        const std::int64_t* ptr = flat_.ptr.data();
        neighbours_.assign(n, 0);
        for (std::int64_t cell = flat_.num_vertices; cell < n; ++cell) {
            const auto others = static_cast<std::uint64_t>(ptr[cell + 1] - ptr[cell] - 1);
            for (std::int64_t i = ptr[cell]; i < ptr[cell + 1]; ++i) neighbours_[flat_.face[i]] += others;
        }
        ++turn_;
        crowded_ = false;
        classes_.clear(n);
        std::int64_t before = 0, after = 0, cell = 0;
        for (int d = 0; d < complexes_.dims(); ++d) {
            const std::int64_t end = cell + flat_.count[d];
            before += cell < end && (before == 0 || options_.initial == Initial::dimension);
            for (; cell < end; ++cell) {
                const auto k = static_cast<std::uint64_t>(ptr[cell + 1] - ptr[cell]);
                Met& met = first_met(d, k, neighbours_[cell]);
                if (met.turn != turn_) {
                    met.turn = turn_;
                    met.cell = static_cast<std::int32_t>(cell);
                    ++after;
                }
                classes_.add(static_cast<std::int32_t>(cell), met.cell);
                colour_[cell] = met.colour;
            }
        }
        if (crowded_) after = classes_.start(colour_);
        return after != before;
    }

    // A colour after the first round, and the first cell of the present complex that has it.
    struct Met {
        int d = -1;
        std::uint64_t k = 0, w = 0;
        Colour colour;
        std::uint64_t turn = 0;
        std::int32_t cell = 0;
    };

    Met& first_met(int d, std::uint64_t k, std::uint64_t w) {
        const int apart = options_.initial == Initial::dimension ? d : 0;
        Met& met = met_[(static_cast<std::uint64_t>(apart) * 641 + k * 37 + w) % met_.size()];
        if (met.d == apart && met.k == k && met.w == w) return met;
        crowded_ |= met.turn == turn_;  // a colour of this complex has lost its place
        Hasher hash(unlabelled_[d]);
        hash.add(d ? k * wide(unlabelled_[d - 1]) : 0, 1);
        hash.add(w ? w * message(unlabelled_[d], unlabelled_[d + 1], 29) : 0, 4);
        met = {apart, k, w, hash.value(), 0, 0};
        return met;
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
    bool labelled_ = false;
    std::vector<Colour> unlabelled_;  // the first colour of a cell without a label, per dimension
    std::vector<Colour> colour_;
    std::vector<u128> upper_;  // zero between rounds
    std::vector<u128> coboundary_, shared_, message_;
    std::vector<std::uint64_t> neighbours_;
    std::array<Met, 1024> met_;  // one place for many colours: the last one that was met has it
    std::uint64_t turn_ = 0;
    bool crowded_ = false;
};

}  // namespace

Refined refine_fast(const Complexes& complexes, const RefineOptions& options, bool (*poll)()) {
    const std::int64_t n = complexes.count;
    Refined out;
    out.rounds.resize(n);
    out.certificates.resize(n);
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
                out.certificates[g] = result.certificate;
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
