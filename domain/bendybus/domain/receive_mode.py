"""How a receiver gets messages; numbers are those of the contract."""

from enum import IntEnum


class ReceiveMode(IntEnum):
    """Lock messages until they are settled, or delete them as they are handed over."""

    PEEK_LOCK = 1
    RECEIVE_AND_DELETE = 2
