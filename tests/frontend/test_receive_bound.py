"""The bound of all caches together, where many queues are received from and few hold anything."""

from collections.abc import Sequence

import pytest

from bendybus.domain.limits import MB
from bendybus.frontend.core import receive
from bendybus.frontend.core.partition_asks import Action
from bendybus.frontend.core.quota.bounds import UNBOUNDED, Bounds
from bendybus.frontend.core.shared_cache import SharedCache
from tests.frontend.test_receive import Bus


@pytest.mark.requirement("R454")
async def test_caches_that_hold_nothing_are_left_alone_when_others_hold_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receive, "CACHED", Bounds(16 * MB, UNBOUNDED, 4 * MB))
    bus, idle, performed = Bus(203), 200, list[str]()
    for index in range(idle):
        bus.open(f"q{index}", owner=f"c{index}").ask(1, 1, 0, 60_000)
    for index in (200, 201):
        bus.open(f"q{index}", owner=f"c{index}").ask(1, 1, 0, 60_000)
        bus.reserve(b"first", b"x" * MB, b"x" * MB)
    bus.open("q202", owner="c202").ask(1, 1, 0, 60_000)
    perform = SharedCache.perform

    def counted(self: SharedCache, actions: Sequence[Action]) -> None:
        performed.append(self.entity.name)
        perform(self, actions)

    monkeypatch.setattr(SharedCache, "perform", counted)
    bus.reserve(b"first", b"x" * MB)

    assert performed == ["q202", "q200"]
    assert bus.desk.held.total == 3 * MB
