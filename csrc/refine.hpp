// Cellular colour refinement (the CWL test of the paper) on packed complexes.
#pragma once

#include <cstdint>
#include <vector>

#include "complexes.hpp"
#include "hashing.hpp"

namespace cwnet {

// Which neighbours a cell looks at.
struct Adjacencies {
    bool boundary = true, coboundary = false, lower = false, upper = true;
    std::uint64_t bits() const { return boundary | coboundary << 1 | lower << 2 | upper << 3; }
};

// Initial colours: all cells alike (as in the paper), or by dimension. Labels, where given, are added to
// either.
enum class Initial : std::int32_t { uniform = 0, dimension = 1 };

struct RefineOptions {
    Adjacencies adjacencies;
    Initial initial = Initial::uniform;
    int max_rounds = -1;       // -1: until stable
    bool until_stable = true;  // false: exactly max_rounds rounds
    bool keep_colours = false;
    bool keep_history = true;  // the hash of the histogram after every round
    int threads = 1;
};

struct Refined {
    std::vector<std::int32_t> rounds;  // per complex: the round whose colouring is stable (or max_rounds)
    std::vector<std::int64_t> history_ptr;  // per complex, into histograms
    std::vector<Colour> histograms;  // hash of the histogram after every round computed, 0 included, if kept
    std::vector<std::int64_t> colour_ptr;  // per complex, into colours (if kept)
    std::vector<Colour> colours;           // per complex: rounds x cells, cells by dimension
    bool cancelled = false;
};

// Fast mode: colours are 128-bit hashes, so complexes are independent of each other and equal colours mean
// equal surroundings in all complexes, runs and machines. Multisets are hashed as sums, and by
//     Σ_{δ ∈ C(σ)} Σ_{τ ∈ B(δ), τ ≠ σ} m(τ, δ) = Σ_{δ ∈ C(σ)} (S(δ) − m(σ, δ)),   S(δ) = Σ_{τ ∈ B(δ)} m(τ, δ)
// upper and lower neighbours cost one product per boundary incidence: O(incidences) per round, no pairs.
// A complex is refined until a round adds no class; that last round's histogram is what is compared.
Refined refine_fast(const Complexes& complexes, const RefineOptions& options, bool (*poll)());

struct RefinedExactly {
    std::int32_t rounds = 0;                         // the round whose joint colouring is stable
    std::vector<std::vector<std::int32_t>> colours;  // per round computed: all cells, complex by complex
    std::vector<std::int64_t> complex_ptr;           // where the cells of each complex start
    bool cancelled = false;
};

// Exact mode: a colour is the number of the sorted multisets a cell sees, the same number for the same
// multisets in all complexes (a perfect hash). Pairs are expanded and sorted: O(Σ size² log size) per round.
RefinedExactly refine_exact(const Complexes& complexes, const RefineOptions& options, bool (*poll)());

}  // namespace cwnet
