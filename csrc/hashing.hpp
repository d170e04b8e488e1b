// Colours: 128-bit hashes of what a cell sees, the same on every machine.
//
// Changing any of this changes every certificate, and CERTIFICATE_VERSION has to change with it, in
// certify.cpp and in Python; and every counted fingerprint, and the version of the featuriser with it.
#pragma once

#include <cstdint>

namespace cwnet {

// 128 bits of which every one depends on all of the cell's surroundings so far.
struct Colour {
    std::uint64_t a = 0, b = 0;
    bool operator==(const Colour&) const = default;
};

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

inline u64 rotate(u64 x, int by) {
    return x << by | x >> (64 - by);
}

// Both words of the result depend on every bit of both arguments.
inline Colour finish(u64 a, u64 b) {
    return {fold(a ^ kKey[12], b ^ kKey[13]), fold(b ^ kKey[14], rotate(a, 32) ^ kKey[15])};
}

inline Colour hash_words(u64 x, u64 y, u64 z) {
    return finish(fold(x ^ kKey[0], kKey[1]) + fold(y ^ kKey[4], kKey[5]),
                  fold(x ^ kKey[2], kKey[3]) + fold(z ^ kKey[6], kKey[7]));
}

}  // namespace cwnet
