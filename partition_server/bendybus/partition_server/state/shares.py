"""Fair shares of what all entities of a partition use together: places, and bytes in memory.

Those that use less than an equal part have what they use; the others have equal parts of the rest
(max-min fairness). The last tenth is kept for those that come later: in it, a user may have no more
than it leaves. A user is an entity; subscriptions are one with their topic.
"""

from collections.abc import Iterable
from typing import Generic, TypeVar

from bendybus.domain.entity import Entity

User = TypeVar("User")


def user_of(entity: Entity) -> str:
    """Return what an entity shares as: with its family, as access policies cover it."""
    return entity.topic_key or entity.key


def level(uses: Iterable[int], bound: int) -> int:
    """Return the most that each user may have so that all together have at most `bound`."""
    ordered = sorted(uses)
    left, users = bound, len(ordered)
    for use in ordered:
        if use * users > left:
            return left // users
        left -= use
        users -= 1
    return bound


class Shares(Generic[User]):
    """How much each user has."""

    __slots__ = ("_used", "total")

    def __init__(self) -> None:
        self._used: dict[User, int] = {}
        self.total = 0

    def of(self, user: User) -> int:
        """Return what a user has."""
        return self._used.get(user, 0)

    def uses(self) -> Iterable[int]:
        """Return what each user has."""
        return self._used.values()

    def add(self, user: User, count: int) -> None:
        """Count what a user has from now on; a negative count: no more."""
        # Twice for each frame that is sent.
        used = self._used.get(user, 0) + count
        self.total += count
        if used:
            self._used[user] = used
        else:
            self._used.pop(user, None)

    def put(self, user: User, count: int, total: int) -> None:
        """Set what a user has, and what all have together."""
        self.total = total
        if count:
            self._used[user] = count
        else:
            self._used.pop(user, None)

    def has_room(self, user: User, count: int, bound: int) -> bool:
        """Whether a user may have that much more, if there is `bound` for all."""
        room = bound - bound // 10
        if self.total + count <= room:
            return True
        if not self.total:
            # One that takes more than nine tenths, where nobody has anything.
            return count <= bound
        wanted = self.of(user) + count
        if wanted > bound - self.total:
            # Of the last tenth as much as is left; or there is no such room at all.
            return False
        others = (min(used, wanted) for key, used in self._used.items() if key != user)
        return sum(others) + wanted <= room
