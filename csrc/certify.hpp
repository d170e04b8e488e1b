// Certificates of complexes: what isomorphic ones have in common, and others rarely do.
#pragma once

#include <vector>

#include "complexes.hpp"
#include "hashing.hpp"

namespace cwnet {

struct Certified {
    std::vector<Colour> certificates;  // per complex
    bool cancelled = false;
};

// A certificate is a hash of the stable colouring that the CWL test ends with, so two complexes have the same
// one if the test does not tell them apart, and only then (but for a chance of about 2^-100). How the
// colouring is come by is free, and this way is shorter than the rounds of the test: incidences join cells of
// even and of odd dimension only, so cells of even dimension have colours, and those of odd dimension pass on
// what they see. A sweep is
//     m_δ ← HASH(label_δ, Σ_{τ ∈ B(δ)} c_τ, Σ_{τ ∈ C(δ)} c_τ)        δ of odd dimension
//     c_σ ← HASH(c_σ, Σ_{δ ∈ B(σ) ∪ C(σ)} m_δ)                       σ of even dimension
// where multisets are hashed as sums: O(incidences) per sweep. Classes are those of boundaries and
// coboundaries, which are those of CWL with any adjacencies that hold boundaries and upper neighbours.
// Cells start with the colour of their dimension, label and size, and sweeps end when one adds no class.
Certified certify(const Complexes& complexes, int threads, bool (*poll)());

}  // namespace cwnet
