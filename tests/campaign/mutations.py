"""Texts and bytes made a little wrong."""

from __future__ import annotations

import random

__all__ = ["flipped", "mutated", "mutated_bytes"]

#: What stands in SMILES, and what does not.
LETTERS = "CNOPSFIBrclnos()[]=#$:/\\@@+-0123456789%.*HhXx{}<>&|^~!?;, \t\"'`é☃\0\u202e"
PIECES = [
    "[#119]",
    "[CH128]",
    "[13CH3]",
    "C1CC1",
    "%99",
    "[C@@H]",
    "[C@TB7]",
    "[Cu@OH12]",
    "/C=C\\",
    "[2H]",
    "[H]",
    "[*:1]",
    "(",
    ")",
    "[",
    "]",
    "==",
    "#",
    "()",
    "1",
    "%(100)",
    "->",
    "<-",
    ">>",
    ".",
    "[C+15]",
    "[C-99]",
    "[999C]",
    "~",
    "$",
    "c1ccccc1",
    "C12C3C4C1C5C2C3C45",
    "[nH]",
    "[se]",
    "[Uuo]",
    "[Og]",
    "|$R$|",
    "C" * 60,
    "(" * 30,
    "[[",
    "\\",
    "@",
]


def mutated(chance: random.Random, text: str, times: int) -> str:
    """A text with some letters or pieces put in, left out, doubled or exchanged."""
    for _ in range(times):
        text = _changed(chance, text)
    return text


def _changed(chance: random.Random, text: str) -> str:
    at = chance.randint(0, len(text))
    to = min(len(text), at + chance.randint(1, 6))
    return chance.choice(
        [
            lambda: text[:at] + chance.choice(LETTERS) + text[at:],
            lambda: text[:at] + chance.choice(LETTERS) + text[at + 1 :],
            lambda: text[:at] + chance.choice(PIECES) + text[at:],
            lambda: text[:at] + text[to:],
            lambda: text[:to] + text[at:to] + text[to:],
            lambda: text[at:] + text[:at],
            lambda: text[:at],
        ]
    )()


def mutated_bytes(chance: random.Random, data: bytes, times: int) -> bytes:
    """Bytes with some of them put in, left out, doubled or changed."""
    for _ in range(times):
        data = _changed_bytes(chance, data)
    return data


def _changed_bytes(chance: random.Random, data: bytes) -> bytes:
    at = chance.randint(0, len(data))
    to = min(len(data), at + chance.choice([1, 1, 3, 20, 200]))
    odd = chance.choice(
        [
            b'"',
            b",",
            b"\n",
            b"\r",
            b"\0",
            b"\xff",
            b"\xef\xbb\xbf",
            b";",
            b"\t",
            b'""',
            b"'",
            b"1e999",
            b"nan",
            b"inf",
            b"-",
            b" ",
            b"9" * 50,
            b"A" * 3000,
            "é".encode(),
            b"\x80",
            b"\n\n",
            b"#",
            b"\x1b[2J",
            b"=1+1",
            b"&lol;",
            b"<",
            b">",
        ]
    )
    return chance.choice(
        [
            lambda: data[:at] + odd + data[at:],
            lambda: data[:at] + odd + data[to:],
            lambda: data[:at] + data[to:],
            lambda: data[:to] + data[at:to] + data[to:],
            lambda: data[:at],
            lambda: flipped(chance, data),
        ]
    )()


def flipped(chance: random.Random, data: bytes) -> bytes:
    """Bytes with one bit changed."""
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
