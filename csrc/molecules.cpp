#include "molecules.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace cwnet {

namespace {

// Of RDKit's binary form, version 16.4. What is not listed is not read.
enum AtomFlag : std::uint8_t { kAromaticAtom = 0x40, kNoImplicit = 0x20 };
enum AtomField : std::uint32_t {
    kCharge = 0x2,
    kChirality = 0x4,
    kHybridisation = 0x8,
    kExplicitHydrogens = 0x10,
    kExplicitValence = 0x20,
    kImplicitValence = 0x40,
    kRadicals = 0x80,
    kIsotope = 0x100,
    kKnownFields = 0x1fe,
};
enum BondFlag : std::uint8_t {
    kAromaticBond = 0x40,
    kConjugated = 0x20,
    kType = 0x8,
    kDirection = 0x4,
    kStereo = 0x2,
    kKnownFlags = 0x6e,
};
constexpr std::uint8_t kBeginAtoms = 0x01, kBeginBonds = 0x0b, kBeginRings = 0x42, kNothingElse = 0x80;
constexpr std::uint8_t kSp3 = 4, kSingle = 1;
constexpr int kMostAtoms = 255;  // larger molecules have wider numbers

struct Reader {
    const unsigned char* at;
    const unsigned char* end;
    bool good = true;

    std::uint8_t byte() {
        if (at == end) {
            good = false;
            return 0;
        }
        return *at++;
    }
    std::uint32_t word() {
        std::uint32_t value = 0;
        if (end - at < 4) {
            good = false;
            at = end;
        } else {
            std::memcpy(&value, at, 4);
            at += 4;
        }
        return value;
    }
    void skip(int count) {
        if (end - at < count) {
            good = false;
            at = end;
        } else {
            at += count;
        }
    }
};

// The categories of an atom but for its degree, which the bonds tell, and the rings it is in.
bool read_atom(Reader& in, const Categories& categories, std::uint8_t* atom) {
    const std::uint8_t number = in.byte();
    const std::uint8_t flags = in.byte();
    const std::uint32_t fields = in.word();
    if ((flags & ~(kAromaticAtom | kNoImplicit)) != 0 || (fields & ~kKnownFields) != 0 || number > 118)
        return false;
    const int charge = (fields & kCharge) ? static_cast<std::int8_t>(in.byte()) : 0;
    const std::uint8_t chirality = (fields & kChirality) ? in.byte() : 0;
    const std::uint8_t hybridisation = (fields & kHybridisation) ? in.byte() : kSp3;
    int hydrogens = (fields & kExplicitHydrogens) ? in.byte() : 0;
    if (fields & kExplicitValence) in.byte();
    if (fields & kImplicitValence) hydrogens += in.byte();
    const int radicals = (fields & kRadicals) ? in.byte() : 0;
    if (fields & kIsotope) in.word();
    atom[0] = number ? number - 1 : 118;
    atom[1] = categories.chirality[chirality];
    atom[2] = static_cast<std::uint8_t>(std::min(hydrogens, 200));  // the degree is added later
    atom[3] = charge >= -5 && charge <= 5 ? charge + 5 : 11;
    atom[4] = std::min(hydrogens, 9);
    atom[5] = std::min(radicals, 5);
    atom[6] = categories.hybridisation[hybridisation];
    atom[7] = (flags & kAromaticAtom) != 0;
    atom[8] = 0;
    return in.good;
}

bool read_bond(Reader& in, const Categories& categories, int atoms, std::int32_t* ends, std::uint8_t* bond) {
    ends[0] = in.byte();
    ends[1] = in.byte();
    const std::uint8_t flags = in.byte();
    if ((flags & ~kKnownFlags) != 0 || ends[0] >= atoms || ends[1] >= atoms) return false;
    const std::uint8_t type = (flags & kType) ? in.byte() : kSingle;
    if (flags & kDirection) in.byte();
    std::uint8_t stereo = 0;
    if (flags & kStereo) {
        stereo = in.byte();
        in.skip(in.byte());
    }
    bond[0] = categories.bond_type[type];
    bond[1] = categories.stereo[stereo];
    bond[2] = (flags & kConjugated) != 0;
    return in.good;
}

}  // namespace

bool append_molecule(std::string_view binary, const Categories& categories, MoleculeArrays& out,
                     MoleculeSize& size) {
    Reader in{reinterpret_cast<const unsigned char*>(binary.data()),
              reinterpret_cast<const unsigned char*>(binary.data()) + binary.size()};
    const std::array<std::uint32_t, 4> head{in.word(), in.word(), in.word(), in.word()};
    in.word();  // the last part of the version changes nothing
    if (head != std::array<std::uint32_t, 4>{0xdeadbeef, 0, 16, 4}) return false;
    const std::uint32_t atoms = in.word(), bonds = in.word();
    if (atoms == 0 || atoms > kMostAtoms || bonds > 4 * atoms) return false;
    if (in.byte() != kNothingElse || in.byte() != kBeginAtoms) return false;

    std::array<std::uint8_t, kMostAtoms * kAtomWidth> atom;
    for (std::uint32_t i = 0; i < atoms; ++i)
        if (!read_atom(in, categories, atom.data() + i * kAtomWidth)) return false;
    if (in.byte() != kBeginBonds) return false;
    std::array<std::int32_t, 4 * kMostAtoms * 2> ends;
    std::array<std::uint8_t, 4 * kMostAtoms * kBondWidth> bond;
    for (std::uint32_t i = 0; i < bonds; ++i) {
        std::int32_t* pair = ends.data() + 2 * i;
        if (!read_bond(in, categories, static_cast<int>(atoms), pair, bond.data() + i * kBondWidth))
            return false;
        for (const std::int32_t v : {pair[0], pair[1]}) {
            std::uint8_t& degree = atom[v * kAtomWidth + 2];
            if (degree < 200) ++degree;
        }
    }
    if (in.byte() != kBeginRings) return false;
    const std::uint32_t rings = in.word();
    for (std::uint32_t r = 0; r < rings && in.good; ++r) {
        for (int left = in.byte(); left > 0; --left) {
            const std::uint8_t v = in.byte();
            if (v >= atoms) return false;
            atom[v * kAtomWidth + 8] = 1;
        }
    }
    if (!in.good) return false;
    for (std::uint32_t i = 0; i < atoms; ++i) {
        std::uint8_t& degree = atom[i * kAtomWidth + 2];
        degree = std::min<std::uint8_t>(degree, 11);
    }
    std::copy_n(ends.data(), 2 * bonds, out.ends.extend(2 * bonds));
    std::copy_n(atom.data(), kAtomWidth * atoms, out.atoms.extend(kAtomWidth * atoms));
    std::copy_n(bond.data(), kBondWidth * bonds, out.bonds.extend(kBondWidth * bonds));
    size = {static_cast<std::int64_t>(atoms), static_cast<std::int64_t>(bonds)};
    return true;
}

}  // namespace cwnet
