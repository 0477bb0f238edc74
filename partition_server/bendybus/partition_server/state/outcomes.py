"""What a partition remembers of what is done, so that a repeat gets the first outcome.

| memory | remembers | shared by | after a restart |
|---|---|---|---|
| `producer_memory` | units of producers' frames | entity | known |
| `transaction_outcomes` | transactions, beside frames | entity | known |
| `operation_memory` | cancels, deletes, receives by number | entity | unknown |
| `settler_memory` | tokens that receivers settled | slot | void, as the tokens |

Each forgets by bounds that all users share (see `shares`), and knows up to when something of a user
may be forgotten: what was first tried before that, and is not remembered, is never taken for new.
"""

from typing import NamedTuple, Protocol, TypeVar

from bendybus.partition_server.state.commands import Now

User = TypeVar("User", contravariant=True)


class Bounds(NamedTuple):
    """How much is remembered: of all users together, and for how long."""

    entries: int
    size_bytes: int
    age_ms: int


class Outcomes(Protocol[User]):
    """A memory of outcomes."""

    def bounds(self) -> Bounds:
        """Return what it may take."""

    def used(self) -> tuple[int, int]:
        """Return what it takes: how many entries, and bytes."""

    def unknown_before(self, user: User, now: Now) -> int:
        """Return until when, on the monotonic clock, something of a user may be forgotten."""


def may_be_forgotten(memory: Outcomes[User], user: User, age_ms: int, now: Now) -> bool:
    """Whether what was first tried `age_ms` ago, and is not remembered, may be done already."""
    return age_ms > 0 and now.mono_ms - age_ms <= memory.unknown_before(user, now)
