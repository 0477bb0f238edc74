"""When a partition looks at its volume: now and then, never too late to refuse what has no room."""

from dataclasses import dataclass, field

import pytest

from bendybus.partition_server.broker import disk_space
from bendybus.partition_server.broker.disk_space import DiskSpace

pytestmark = pytest.mark.requirement("R641")
MB = 1024 * 1024
FREE_MIN = 64 * MB


@dataclass
class Volume:
    """Stands in for the store and its volume, and counts looks."""

    free: int = 1_000 * MB
    written: int = 0
    unused: int = 0
    wal: int = 2 * disk_space.LOG_BYTES_MAX
    now_s: float = 100.0
    looks: int = 0
    reserves: list[str] = field(default_factory=list)

    @property
    def guard(self) -> "Volume":
        """Be the files' guard, too."""
        return self

    def wal_bytes(self) -> int:
        """Return the size of the log."""
        return self.wal

    def written_bytes(self) -> int:
        """Return the bytes that were written so far."""
        return self.written

    def unused_bytes(self) -> int:
        """Return the unused bytes of the file."""
        return self.unused

    def free_bytes(self) -> int:
        """Be looked at."""
        self.looks += 1
        return self.free

    def restore_reserve(self) -> None:
        """Lay down the reserve."""
        self.reserves.append("restored")

    def give_up_reserve(self) -> bool:
        """Return that there is no reserve."""
        return False

    def space(self) -> DiskSpace:
        """Return a watch on this volume."""
        return DiskSpace(self, FREE_MIN, lambda: self.now_s)  # type: ignore[arg-type]


def test_a_volume_is_looked_at_once_in_50_ms_while_messages_are_stored() -> None:
    volume = Volume()
    space = volume.space()

    for _ in range(1_000):
        assert space.check("", sending=True) == ""
        volume.now_s += 0.001

    assert 19 <= volume.looks <= 21


def test_it_is_looked_at_once_in_a_second_while_nothing_is_sent() -> None:
    volume = Volume()
    space = volume.space()

    for _ in range(40):
        space.check("", sending=False)
        volume.now_s += 0.1

    assert volume.looks == 4


def test_it_is_looked_at_after_each_megabyte_however_fast_that_is_written() -> None:
    volume = Volume()
    space = volume.space()
    space.check("", sending=True)

    for _ in range(64):
        volume.written += MB // 4
        space.check("", sending=True)

    assert volume.looks == 1 + 16


def test_what_may_be_written_until_the_next_look_is_kept_free_beside_the_mark() -> None:
    volume = Volume(free=FREE_MIN + disk_space.STORING_BYTES - 1)
    assert "keeps free" in volume.space().check("", sending=True)

    volume = Volume(free=FREE_MIN + disk_space.STORING_BYTES)
    assert volume.space().check("", sending=True) == ""


def test_a_commit_without_room_is_followed_by_a_look() -> None:
    volume = Volume()
    space = volume.space()
    space.check("", sending=True)
    volume.free = 0

    space.ran_out()

    assert "keeps free" in space.check("", sending=True)
    assert space.full()
    volume.now_s += disk_space.FULL_S
    assert not space.full()
