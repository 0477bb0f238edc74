"""Lines of small sends, which go to partitions together. Pure; times are passed in.

A *line* has the sends of all clients of a front end that wait for one partition of an entity, or,
if they have no key, for any. One batch of a line is under way at a time to each partition; what
comes meanwhile goes with the next. So a partition has one request for what many clients send at the
same time, and a client that is alone never waits.

Sends without a key are spread evenly: a batch has at most a *run*, a sixteenth of what the entity
gets within a second, or the partition's share of what waits, and goes to the one that got the
least. When a whole run waits, each partition that is free gets one. Otherwise two at a time are
enough to be busy, and make larger batches than all of them: while one is busy, the next batch waits
until it is as large as that one, so that those who await their sends go in two halves. A partition
that takes twice as long as batches usually do does not count as busy any more: it would hold up
those that are for others.

Policies have turns within a batch, of one request each, and so have the connections of a policy:
neither a connection with many links nor a policy with many connections delays others by more than
theirs. Each connection keeps its own order.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

# The bounds of a batch. The requests are fewer than a partition remembers parts of one frame
# (`producer_memory.PARTS_MAX`): each may be repeated by itself.
MESSAGES_MAX: Final = 1_000
BYTES_MAX: Final = 1024 * 1024
REQUESTS_MAX: Final = 128
RUNS_PER_S: Final = 16
# Partitions that have a batch of sends without a key under way, while no whole run waits.
BUSY: Final = 2
# Between these, twice what batches usually take: one that is under way for longer holds up no other
# partition.
HOLD_LEAST_S: Final = 0.004
HOLD_S: Final = 1 / RUNS_PER_S
# The share of a batch in how long batches usually take.
_WEIGHT: Final = 1 / 8


class Waiting(Protocol):
    """A request that waits in a line."""

    @property
    def connection(self) -> Hashable:
        """The connection that has a turn for it."""

    @property
    def policy(self) -> str:
        """The policy that has a turn for it."""

    @property
    def count(self) -> int:
        """Its messages."""

    @property
    def size_bytes(self) -> int:
        """Their bytes."""


WaitingT = TypeVar("WaitingT", bound=Waiting)


class Batch(NamedTuple, Generic[WaitingT]):
    """Requests that go to a partition together."""

    partition: int
    requests: list[WaitingT]


class SendLine(Generic[WaitingT]):
    """A line for these partitions: one, or all of an entity. `first` has the first batch."""

    def __init__(self, partitions: Sequence[int], first: int) -> None:
        self._partitions = partitions
        self._first = first
        # By policy, and by connection; the one whose turn it is is the first one.
        self._waiting: OrderedDict[str, OrderedDict[Hashable, deque[WaitingT]]] = OrderedDict()
        # Under which policy each connection waits: that of its first request, as it keeps its order
        # when it changes its policy.
        self._policies: dict[Hashable, str] = {}
        self._messages = 0
        self._under_way = _UnderWay()
        # Messages that each partition got, raised to what the others got if it was left out.
        self._got: dict[int, int] = dict.fromkeys(partitions, 0)
        self._least = 0
        self._rate = _Rate()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self._waiting and not self._under_way

    def put(self, request: WaitingT) -> None:
        """Add a request."""
        connection = request.connection
        policy = self._policies.setdefault(connection, request.policy)
        connections = self._waiting.setdefault(policy, OrderedDict())
        connections.setdefault(connection, deque()).append(request)
        self._messages += request.count

    def next(self, now_s: float, available: Callable[[int], bool]) -> Batch[WaitingT] | None:
        """Return a batch to be sent now; None: nothing waits, or it waits for an answer.

        `available`: whether a partition can be reached.
        """
        if not self._waiting:
            return None
        run = MESSAGES_MAX
        if len(self._partitions) > 1:
            run = max(1, (self._rate.of_last_second(now_s) + self._messages) // RUNS_PER_S)
            if self._messages < run and self._under_way.holds_up(self._messages, now_s):
                return None
        free = [each for each in self._partitions if each not in self._under_way]
        # If none can be reached the sends learn so.
        reachable = list(filter(available, free))
        if not reachable and self._under_way:
            return None
        partition = min(reachable or free, key=self._turn)
        # Where few can be reached and take long, runs would become small, and then smaller.
        share = -(-self._messages // (len(reachable) + len(self._under_way) or 1))
        requests, count = self._take(min(max(run, share), MESSAGES_MAX))
        self._under_way.add(partition, count, now_s)
        self._rate.add(count, now_s)
        if len(self._partitions) > 1:
            # One that was left out for long does not get everything until it has caught up.
            self._least = self._got[partition] = max(self._got[partition], self._least - 2 * run)
            self._got[partition] += count
            self._first = (self._partitions.index(partition) + 1) % len(self._partitions)
        return Batch(partition, requests)

    def next_of(self, connection: Hashable) -> Batch[WaitingT] | None:
        """Return a batch of what waits of a connection, whatever is under way; None: nothing does.

        For a line of one partition: what the connection sends next must not come before.
        """
        policy = self._policies.get(connection)
        if policy is None:
            return None
        connections = self._waiting[policy]
        requests = connections[connection]
        batch = _Filling[WaitingT](MESSAGES_MAX)
        while requests and batch.takes(requests[0]):
            requests.popleft()
        if not requests:
            del connections[connection], self._policies[connection]
            if not connections:
                del self._waiting[policy]
        self._messages -= batch.count
        [partition] = self._partitions
        self._under_way.also(partition)
        return Batch(partition, batch.requests)

    def also(self, partition: int) -> None:
        """Take note that a part of a batch goes, and is answered, by itself."""
        self._under_way.also(partition)

    def answered(self, partition: int, now_s: float) -> None:
        """Take note that a batch, or a part of one, was answered."""
        self._under_way.answered(partition, now_s)

    def held_up_s(self, now_s: float) -> float:
        """Return for how long what is under way may hold up what waits; 0: nothing does."""
        return self._under_way.holds_up_s(now_s)

    def _turn(self, partition: int) -> tuple[int, int]:
        place = self._partitions.index(partition)
        return self._got[partition], (place - self._first) % len(self._partitions)

    def _take(self, messages_max: int) -> tuple[list[WaitingT], int]:
        """Take requests, of one policy and connection after the other; return their messages."""
        batch = _Filling[WaitingT](messages_max)
        waiting = self._waiting
        while waiting:
            policy, connections = next(iter(waiting.items()))
            connection, requests = next(iter(connections.items()))
            if not batch.takes(requests[0]):
                # It begins the next one.
                break
            requests.popleft()
            if requests:
                connections.move_to_end(connection)
            else:
                del connections[connection], self._policies[connection]
            if connections:
                waiting.move_to_end(policy)
            else:
                del waiting[policy]
        self._messages -= batch.count
        return batch.requests, batch.count


class _UnderWay:
    """Batches under way, by partition."""

    def __init__(self) -> None:
        # Batches, and parts of them that are answered by themselves.
        self._parts: Counter[int] = Counter()
        # When each batch began, and its messages.
        self._batches: dict[int, tuple[float, int]] = {}
        # How long batches took on average, the newest ones above all.
        self._usual_s = HOLD_S

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, partition: int) -> bool:
        return partition in self._parts

    def add(self, partition: int, count: int, now_s: float) -> None:
        """Add a batch with its number of messages."""
        self._parts[partition] += 1
        self._batches[partition] = now_s, count

    def also(self, partition: int) -> None:
        """Add a part that is answered by itself."""
        self._parts[partition] += 1

    def answered(self, partition: int, now_s: float) -> None:
        """Remove a batch, or a part of one."""
        self._parts[partition] -= 1
        if self._parts[partition]:
            return
        del self._parts[partition]
        if partition in self._batches:
            began_s, _ = self._batches.pop(partition)
            self._usual_s += _WEIGHT * (min(now_s - began_s, HOLD_S) - self._usual_s)

    def holds_up(self, messages: int, now_s: float) -> bool:
        """Return whether a batch of `messages` has to wait for those under way."""
        busy = [count for left_s, count in self._busy(now_s) if left_s > 0]
        return len(busy) >= BUSY or messages < max(busy, default=0)

    def holds_up_s(self, now_s: float) -> float:
        """Return for how long at most something else waits for the next of them."""
        return min((left_s for left_s, _ in self._busy(now_s) if left_s > 0), default=0.0)

    def _busy(self, now_s: float) -> Iterator[tuple[float, int]]:
        hold_s = min(HOLD_S, max(HOLD_LEAST_S, 2 * self._usual_s))
        for began_s, count in self._batches.values():
            yield hold_s - (now_s - began_s), count


class _Filling(Generic[WaitingT]):
    """A batch that is being filled."""

    def __init__(self, messages_max: int) -> None:
        self.requests: list[WaitingT] = []
        # Their messages.
        self.count = 0
        self._messages_max = messages_max
        self._size_bytes = 0

    def takes(self, request: WaitingT) -> bool:
        """Add a request if there is room for it, as there is for any first one."""
        count, size_bytes = self.count + request.count, self._size_bytes + request.size_bytes
        if self.requests and (
            count > self._messages_max
            or size_bytes > BYTES_MAX
            or len(self.requests) >= REQUESTS_MAX
        ):
            return False
        self.requests.append(request)
        self.count, self._size_bytes = count, size_bytes
        return True


class _Rate:
    """How many there were within the last second, roughly."""

    def __init__(self) -> None:
        self._second = 0
        self._before = self._current = 0

    def add(self, count: int, now_s: float) -> None:
        """Count some."""
        self._turn(int(now_s))
        self._current += count

    def of_last_second(self, now_s: float) -> int:
        """Return the count: of this second, and of the part of the last one that is left."""
        second = int(now_s)
        self._turn(second)
        return self._current + int(self._before * (1 - (now_s - second)))

    def _turn(self, second: int) -> None:
        if second != self._second:
            self._before = self._current if second == self._second + 1 else 0
            self._second, self._current = second, 0
