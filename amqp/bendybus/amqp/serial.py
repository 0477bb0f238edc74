"""Serial numbers of 32 bits, which wrap around: RFC 1982."""

from typing import Final

MASK: Final = 0xFFFFFFFF


def after(number: int, steps: int = 1) -> int:
    """Return the number so many steps later."""
    return (number + steps) & MASK


def distance(earlier: int, later: int) -> int:
    """Return the steps from one number to another; negative if the other is before it."""
    found = (later - earlier) & MASK
    return found - (1 << 32) if found >> 31 else found
