"""What a publish costs in one partition: matching and not matching subscriptions, bytes per copy.

python -m bench.topics

In one process, with a real file and without gRPC: seconds of CPU for each message, in batches of
100, and the growth of the file for each copy of a body of 1 KB.
"""

import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import uuid4

from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_settings import SubscriptionDescription, TopicDescription
from bendybus.domain.filters.rule import CorrelationFilter, Rule, SqlFilter
from bendybus.domain.filters.rule_set import RuleSet
from bendybus.domain.limits import Tier
from bendybus.partition_server.broker.partition import Partition
from bendybus.partition_server.state.commands import Append, ApplyEntity, Batch, EntityRef, Now
from bendybus.partition_server.state.stage import Stage
from bendybus.partition_server.store.sqlite_store import SqliteStore
from bendybus.v1 import message_pb2

BATCH: Final = 100
BATCHES: Final = 20
BODY: Final = b"b" * 1_024
NOW: Final = Now(1_700_000_000_000, 1_000_000)
_TURNS: Final = itertools.count(1)
FINGERPRINT: Final = Fingerprint("bench", "bench", Tier.PREMIUM, 1, 0)


def main() -> None:
    """Print a row for each case."""
    every = Rule("every")
    cases: dict[str, tuple[int, Callable[[int], Rule]]] = {
        "1 matching": (1, lambda i: every),
        "10 matching": (10, lambda i: every),
        "100 matching": (100, lambda i: every),
        "2,000 correlation, none matching": (
            2_000,
            lambda i: Rule("r", CorrelationFilter(properties={"n": -1 - i})),
        ),
        "2,000 SQL with equality, none matching": (
            2_000,
            lambda i: Rule("r", SqlFilter("n = @n AND price > 5", {"n": -1 - i})),
        ),
        "2,000 SQL without equality, none matching": (
            2_000,
            lambda i: Rule("r", SqlFilter("price > @p", {"p": 1_000 + i})),
        ),
    }
    print(f"{'subscriptions':45} {'µs CPU / message':>18} {'bytes / copy':>14}")
    for name, (count, rule_of) in cases.items():
        cpu_us, size_bytes = run(count, rule_of)
        print(f"{name:45} {cpu_us:18,.1f} {size_bytes:14,.0f}")


def run(count: int, rule_of: Callable[[int], Rule]) -> tuple[float, float]:
    """Return microseconds of CPU for each message, and bytes of the file for each copy."""
    with tempfile.TemporaryDirectory() as directory:
        store = SqliteStore(Path(directory), FINGERPRINT)
        partition = Partition(store.open(), store, NOW, new_id=uuid4)
        topic = Entity("t", "t", count + 1, Origin.CLIENT, TopicDescription(), 1, 0, 0, 0)
        entries = [
            Entity(
                f"t/Subscriptions/s{i}",
                f"s{i}",
                i + 1,
                Origin.CLIENT,
                SubscriptionDescription(rules=RuleSet([rule_of(i)])),
                1,
                0,
                0,
                0,
            )
            for i in range(count)
        ]
        for start in range(0, count, 500):
            _do(partition, store, ApplyEntity(None, entries[start : start + 500]))
        _do(partition, store, ApplyEntity(None, [topic]))
        head = message_pb2.Message()
        head.application_properties["n"].long_value = 7
        head.application_properties["price"].double_value = 9.5
        batch = Batch([BODY] * BATCH, heads=[head.SerializeToString()] * BATCH, formats=[1] * BATCH)
        command = Append(None, EntityRef("t", count + 1), batch)
        _do(partition, store, command)
        store.checkpoint()
        before_bytes, begun = store.path.stat().st_size, time.process_time()
        for _ in range(BATCHES):
            _do(partition, store, command)
        cpu_s = time.process_time() - begun
        store.checkpoint()
        grown = store.path.stat().st_size - before_bytes
        copies = max(1, count) if grown > BATCH * BATCHES else 1
        store.close()
        messages = BATCH * BATCHES
        return cpu_s * 1e6 / messages, grown / messages / copies


def _do(partition: Partition, store: SqliteStore, command: Append | ApplyEntity) -> None:
    now = _next_turn()
    stage: Stage | None = partition.decide([command], now)
    # A frame may take several turns.
    while stage is not None:
        store.commit(stage.changes)
        partition.apply(stage, now)
        now = _next_turn()
        stage = partition.sweep(now) if partition.state.publications else None


def _next_turn() -> Now:
    return Now(NOW.wall_ms, NOW.mono_ms + next(_TURNS))


if __name__ == "__main__":
    main()
