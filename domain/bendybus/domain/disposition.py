"""What a receiver decides about messages that it has locked; numbers are those of the contract."""

from enum import IntEnum


class Disposition(IntEnum):
    """How a locked message is settled."""

    COMPLETE = 1
    ABANDON = 2
    DEFER = 3
    DEAD_LETTER = 4
    # Not a settlement: the lock lasts a whole lock duration from now.
    RENEW_LOCK = 5
    # Gives a message back that the application never saw: no delivery is counted.
    RELEASE = 6
