#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lift.hpp"

namespace cwnet {

// From RDKit's enumerations to categories, 256 entries each.
struct Categories {
    const std::uint8_t* chirality;
    const std::uint8_t* hybridisation;
    const std::uint8_t* bond_type;
    const std::uint8_t* stereo;
};

inline constexpr int kAtomWidth = 9, kBondWidth = 3;

// Molecules as graphs with OGB's categories: nine for an atom, three for a bond.
struct MoleculeArrays {
    GrowingArray<std::int32_t> ends;
    GrowingArray<std::uint8_t> atoms;
    GrowingArray<std::uint8_t> bonds;
};

struct MoleculeSize {
    std::int64_t atoms;
    std::int64_t bonds;
};

// Read a molecule in RDKit's binary form and append it. False, and nothing appended, if anything about it is
// not known here: the caller asks RDKit for it, atom by atom.
bool append_molecule(std::string_view binary, const Categories& categories, MoleculeArrays& out,
                     MoleculeSize& size);

}  // namespace cwnet
