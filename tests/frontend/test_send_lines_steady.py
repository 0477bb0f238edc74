"""A line spreads clients that each await a send before the next one, and delays few of them."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from bendybus.frontend.core.send_lines import Batch, SendLine

Due = list[tuple[float, Callable[[], None]]]

pytestmark = pytest.mark.requirement("R639")


@dataclass
class Send:
    """The send that a client awaits."""

    connection: str
    began_ms: float = 0.0
    count: int = 1
    size_bytes: int = 300
    policy: str = ""


@dataclass
class Steady:
    """A simulation of clients. Each sends again `pause_ms` after its answer."""

    partitions: int
    took_ms: Callable[[int], float]
    """How long a batch takes, by partition."""
    pause_ms: float = 0.0
    reached: Callable[[int], bool] = lambda _: True
    now_ms: float = 0.0
    got: Counter[int] = field(default_factory=Counter)
    """Messages, by partition."""
    batches: list[int] = field(default_factory=list)
    """Their sizes."""
    waited_ms: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """How long each send took, by partition."""

    def run(self, clients: int, messages: int) -> "Steady":
        """Run until this many messages were sent."""
        line: SendLine[Send] = SendLine(range(self.partitions), 0)
        due: Due = [(0.0, partial(line.put, Send(f"c{client}"))) for client in range(clients)]
        while self.got.total() < messages:
            self.now_ms = min(at_ms for at_ms, _ in due)
            for each in [each for each in due if each[0] == self.now_ms]:
                due.remove(each)
                each[1]()
            self._flush(line, due)
        return self

    def _flush(self, line: SendLine[Send], due: Due) -> None:
        while batch := line.next(self.now_ms / 1_000, self.reached):
            self.batches.append(len(batch.requests))
            ends_ms = self.now_ms + self.took_ms(batch.partition)
            due.append((ends_ms, partial(self._answer, line, due, batch)))
        held_up_ms = 1_000 * line.held_up_s(self.now_ms / 1_000)
        if line and held_up_ms:
            # As the loop does: it looks again, whatever is answered by then.
            due.append((self.now_ms + held_up_ms + 0.01, lambda: None))

    def _answer(self, line: SendLine[Send], due: Due, batch: Batch[Send]) -> None:
        line.answered(batch.partition, self.now_ms / 1_000)
        self.got[batch.partition] += len(batch.requests)
        again_ms = self.now_ms + self.pause_ms
        for each in batch.requests:
            self.waited_ms[batch.partition].append(self.now_ms - each.began_ms)
            due.append((again_ms, partial(line.put, Send(each.connection, again_ms))))


@pytest.mark.parametrize("partitions", [4, 16])
@pytest.mark.parametrize(("clients", "messages"), [(2, 10_000), (64, 10_000), (256, 40_000)])
def test_many_clients_spread_evenly(partitions: int, clients: int, messages: int) -> None:
    found = Steady(partitions, lambda _: 1).run(clients, messages).got

    share = found.total() / partitions
    assert all(0.9 * share < found[each] < 1.1 * share for each in range(partitions))


@pytest.mark.parametrize("clients", [4, 16, 64])
def test_clients_go_in_two_halves_and_wait_for_little_but_their_own_partition(clients: int) -> None:
    seen = Steady(4, lambda _: 5, pause_ms=1).run(clients, 400 * clients)

    assert sum(seen.batches) / len(seen.batches) > 0.4 * clients
    waited_ms = sorted(each for every in seen.waited_ms.values() for each in every)
    assert waited_ms[len(waited_ms) // 2] < 7


@pytest.mark.parametrize("slow_ms", [20, 50, 1_000])
def test_a_slow_partition_holds_up_what_is_for_others_for_no_more_than_two_turns(
    slow_ms: int,
) -> None:
    seen = Steady(4, lambda partition: slow_ms if partition == 2 else 2, pause_ms=1)
    seen.run(64, 60_000)

    others_ms = sorted(each for which in (0, 1, 3) for each in seen.waited_ms[which])
    assert others_ms[len(others_ms) // 2] < 5
    assert others_ms[int(0.99 * len(others_ms))] < 20
    assert seen.waited_ms[2]


@pytest.mark.parametrize("slow_ms", [100, 200])
def test_a_slow_partition_that_is_the_only_one_left_gets_all_that_waits(slow_ms: int) -> None:
    seen = Steady(16, lambda _: slow_ms, pause_ms=1, reached=lambda partition: partition == 3)
    seen.run(64, 2_000)

    waited_ms = sorted(seen.waited_ms[3])
    assert waited_ms[len(waited_ms) // 2] <= 2 * slow_ms
