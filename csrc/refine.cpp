#include "refine.hpp"

#include <algorithm>
#include <memory>
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

// ------------------------------------------------------------------------------------- one complex,
// flattened

// The cells of all dimensions in one row, with boundaries in these numbers.
struct Flat {
    std::int64_t num_cells = 0;
    std::vector<std::int64_t> ptr;   // [cells + 1]
    std::vector<std::int32_t> face;  // flat numbers of boundary cells

    void load(const Complexes& complexes, std::int64_t g) {
        const std::int64_t num_vertices = complexes.cell_ptr[0][g + 1] - complexes.cell_ptr[0][g];
        num_cells = num_vertices;
        ptr.assign(1 + num_vertices, 0);
        std::int64_t below = 0, incidences = 0;
        for (int d = 1; d < complexes.dims(); ++d) {
            const std::int64_t first = complexes.cell_ptr[d][g], last = complexes.cell_ptr[d][g + 1];
            const std::int32_t* rows = complexes.boundary_ptr[d - 1];
            const std::int64_t begin = rows[first], end = rows[last];
            ptr.resize(1 + num_cells + last - first);
            std::int64_t* at = ptr.data() + 1 + num_cells;
            for (std::int64_t i = first; i < last; ++i) *at++ = incidences - begin + rows[i + 1];
            face.resize(incidences + end - begin);
            std::int32_t* to = face.data() + incidences;
            const std::int32_t* idx = complexes.boundary_idx[d - 1];
            for (std::int64_t i = begin; i < end; ++i) *to++ = static_cast<std::int32_t>(below + idx[i]);
            incidences += end - begin;
            below = num_cells;
            num_cells += last - first;
        }
    }
};

template <class F>
void for_each_cell(const Complexes& complexes, std::int64_t g, F&& f) {
    for (int d = 0; d < complexes.dims(); ++d)
        for (std::int64_t i = complexes.cell_ptr[d][g]; i < complexes.cell_ptr[d][g + 1]; ++i)
            f(d, complexes.labels[d] ? complexes.labels[d] + i : nullptr);
}

// Counts distinct colours with a table that is never cleared: entries of earlier counts have an older stamp.
class ClassCounter {
  public:
    std::int64_t count(const std::vector<Colour>& colours) {
        std::size_t wanted = 16;
        while (wanted < 2 * colours.size()) wanted *= 2;
        if (wanted > keys_.size()) {
            keys_.assign(wanted, {});
            stamps_.assign(wanted, 0);
            stamp_ = 0;
        }
        if (++stamp_ == 0) {
            std::fill(stamps_.begin(), stamps_.end(), 0);
            stamp_ = 1;
        }
        const std::size_t mask = wanted - 1;
        std::int64_t classes = 0;
        for (const Colour& c : colours) {
            std::size_t at = c.a & mask;
            while (stamps_[at] == stamp_ && !(keys_[at] == c)) at = (at + 1) & mask;
            if (stamps_[at] == stamp_) continue;
            stamps_[at] = stamp_;
            keys_[at] = c;
            ++classes;
        }
        return classes;
    }

  private:
    std::vector<Colour> keys_;
    std::vector<std::uint32_t> stamps_;
    std::uint32_t stamp_ = 0;
};

// ------------------------------------------------------------------------------------------------ fast mode

class FastRefiner {
  public:
    FastRefiner(const Complexes& complexes, const RefineOptions& options)
        : complexes_(complexes), options_(options) {}

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
        colour_.clear();
        for_each_cell(complexes_, g, [&](int d, const std::int64_t* label) {
            colour_.push_back(initial_colour(options_.initial, d, label));
        });
        record(result);
        std::int64_t classes = options_.until_stable ? counter_.count(colour_) : 0;
        int round = 0;
        while (options_.max_rounds < 0 || round < options_.max_rounds) {
            step();
            record(result);
            if (options_.until_stable) {
                const std::int64_t now = counter_.count(colour_);
                if (now == classes) break;
                classes = now;
            }
            ++round;
        }
        result.rounds = round;
        Hasher certificate(result.histograms.back());
        certificate.add(static_cast<u128>(kCertificateVersion << 8 | options_.adjacencies.bits()), 1);
        certificate.add(static_cast<u128>(round), 2);
        certificate.add(static_cast<u128>(flat_.num_cells), 3);
        result.certificate = certificate.value();
    }

  private:
    void record(Result& result) {
        u128 sum = 0;
        for (const Colour& c : colour_) sum += wide(c);
        Hasher hash(narrow(sum));
        hash.add(static_cast<u128>(colour_.size()), 0);
        result.histograms.push_back(hash.value());
        if (options_.keep_colours)
            result.colours.insert(result.colours.end(), colour_.begin(), colour_.end());
    }

    void step() {
        const Adjacencies& use = options_.adjacencies;
        const std::int64_t n = flat_.num_cells;
        const std::int64_t* ptr = flat_.ptr.data();
        const std::int32_t* face = flat_.face.data();
        boundary_.assign(n, 0);
        if (use.coboundary) coboundary_.assign(n, 0);
        if (use.upper) upper_.assign(n, 0);
        if (use.lower) {
            lower_.assign(n, 0);
            shared_.assign(n, 0);
        }
        for (std::int64_t cell = 0; cell < n; ++cell) {
            const Colour own = colour_[cell];
            const std::int64_t begin = ptr[cell], end = ptr[cell + 1];
            if (begin == end) continue;
            if (use.boundary) {
                u128 sum = 0;
                for (std::int64_t i = begin; i < end; ++i) sum += wide(colour_[face[i]]);
                boundary_[cell] = sum;
            }
            if (use.coboundary)
                for (std::int64_t i = begin; i < end; ++i) coboundary_[face[i]] += wide(own);
            if (use.upper) {
                message_.resize(std::max<std::size_t>(message_.size(), end - begin));
                u128 all = 0;
                for (std::int64_t i = begin; i < end; ++i)
                    all += message_[i - begin] = message(colour_[face[i]], own, 29);
                for (std::int64_t i = begin; i < end; ++i) upper_[face[i]] += all - message_[i - begin];
            }
            if (use.lower)
                for (std::int64_t i = begin; i < end; ++i)
                    shared_[face[i]] += message(own, colour_[face[i]], 13);
        }
        if (use.lower)
            for (std::int64_t cell = 0; cell < n; ++cell)
                for (std::int64_t i = ptr[cell]; i < ptr[cell + 1]; ++i)
                    lower_[cell] += shared_[face[i]] - message(colour_[cell], colour_[face[i]], 13);
        for (std::int64_t cell = 0; cell < n; ++cell) {
            Hasher hash(colour_[cell]);
            if (use.boundary) hash.add(boundary_[cell], 1);
            if (use.coboundary) hash.add(coboundary_[cell], 2);
            if (use.lower) hash.add(lower_[cell], 3);
            if (use.upper) hash.add(upper_[cell], 4);
            colour_[cell] = hash.value();
        }
    }

    const Complexes& complexes_;
    RefineOptions options_;
    Flat flat_;
    ClassCounter counter_;
    std::vector<Colour> colour_;
    std::vector<u128> boundary_, coboundary_, lower_, upper_, shared_, message_;
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
