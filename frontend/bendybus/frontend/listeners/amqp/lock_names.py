"""Names of locks over AMQP: the UUIDs that clients get instead of lock tokens, and back.

    lock token ──► name (16 bytes that read as a UUID) ──► delivery tag: the name in .NET's order

Tokens of neighbouring messages differ in a byte or two. Some clients keep deliveries by the text of
their tags, in which bytes that are no UTF-8 look alike; so names differ in every byte. The mapping
is fixed, and so the same at all front ends.
"""

import struct
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from bendybus.domain import lock_token

_MASK: Final = 2**128 - 1
_HALF: Final = 64
# Odd, so that multiplying by them modulo 2**128 can be undone. Digits of pi and e.
_FIRST: Final = 0x243F6A8885A308D313198A2E03707345
_SECOND: Final = 0xB7E151628AED2A6ABF7158809CF4F3C7
_FIRST_BACK: Final = pow(_FIRST, -1, 2**128)
_SECOND_BACK: Final = pow(_SECOND, -1, 2**128)
_ORDER: Final = struct.Struct("<IHH8s")
_PLAIN: Final = struct.Struct(">IHH8s")


def name_of(token: bytes) -> bytes:
    """Return the name of a lock."""
    mixed = int.from_bytes(token) * _FIRST & _MASK
    mixed = (mixed ^ mixed >> _HALF) * _SECOND & _MASK
    return (mixed ^ mixed >> _HALF).to_bytes(lock_token.TOKEN_BYTES)


def tag_of(name: bytes) -> bytes:
    """Return a name as a delivery tag: a GUID in the byte order of .NET."""
    return _ORDER.pack(*_PLAIN.unpack(name))


def token_of(name: bytes) -> bytes:
    """Return the token of the lock that a client names."""
    mixed = int.from_bytes(name)
    mixed = (mixed ^ mixed >> _HALF) * _SECOND_BACK & _MASK
    return ((mixed ^ mixed >> _HALF) * _FIRST_BACK & _MASK).to_bytes(lock_token.TOKEN_BYTES)


def tokens_of(names: Iterable[UUID]) -> bytes:
    """Return the tokens of several locks, one after the other."""
    return b"".join([token_of(each.bytes) for each in names])
