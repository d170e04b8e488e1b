"""Slow, obviously right: the certificate of a complex, to the bit, in whole numbers of Python.

It follows the equations of `csrc/certify.hpp` cell by cell, and counts classes by comparing all colours.
"""

from tests.reference.refinement import boundaries, transposed

VERSION = 2
BLIND_SWEEPS = 2
WORD = 2**64
KEY = (
    0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93,
    0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3,
    0x1D8E4E27C47D124F, 0xEB44ACCAB455D165, 0x2D358DCCAA6C78A5, 0x8BB84B93962EACC9,
    0x4B33A62ED433D4A3, 0x4D5A2DA51DE1AA47, 0xAAAAAAAAAAAAAAAB, 0xC2B2AE3D27D4EB4F,
)  # fmt: skip


def certificate(complex_, labels=None):
    """32 hexadecimal digits. `labels` gives some cells, as (dimension, number), a whole number."""
    labels = labels or {}
    below = boundaries(complex_)
    above = transposed(below)
    cells = [(d, i) for d, n in enumerate(complex_.num_cells) for i in range(n)]
    colour = {cell: first_colour(cell, below, above, labels) for cell in cells}
    even, odd = ([cell for cell in cells if cell[0] % 2 == parity] for parity in (0, 1))
    sweeps = 0
    while True:
        before = len({colour[cell] for cell in even})
        message = {
            cell: mix(total([colour[cell], *(colour[f] for f in below[cell])]), total(colour[c] for c in above[cell]))
            for cell in odd
        }
        colour |= {cell: mix(colour[cell], total(message[c] for c in below[cell] + above[cell])) for cell in even}
        sweeps += 1
        if sweeps > BLIND_SWEEPS and len({colour[cell] for cell in even}) == before:
            break
    shape = hash_words(VERSION << 32 | sweeps, len(even), len(odd))
    return "{:016x}{:016x}".format(*mix(total(colour[cell] for cell in even), shape))


def first_colour(cell, below, above, labels):
    d, _ = cell
    size = len(below[cell]) if d else len(above[cell])
    return hash_words(d << 1 | (cell in labels), size, labels.get(cell, 0) % WORD)


def total(colours):
    colours = list(colours)
    return tuple(sum(c[lane] for c in colours) % WORD for lane in (0, 1))


def mix(x, y):
    return finish(*((a + rotate(b, 23)) % WORD for a, b in zip(x, y, strict=True)))


def hash_words(x, y, z):
    return finish(
        (fold(x ^ KEY[0], KEY[1]) + fold(y ^ KEY[4], KEY[5])) % WORD,
        (fold(x ^ KEY[2], KEY[3]) + fold(z ^ KEY[6], KEY[7])) % WORD,
    )


def finish(a, b):
    return fold(a ^ KEY[12], b ^ KEY[13]), fold(b ^ KEY[14], rotate(a, 32) ^ KEY[15])


def fold(x, y):
    return (x * y) % WORD ^ (x * y) // WORD


def rotate(x, by):
    return (x << by) % WORD | x >> (64 - by)
