"""What a person is told of partitions that do not serve."""

import json
from pathlib import Path

from bendybus.cli.bus import management
from bendybus.v1 import management_pb2 as pb

AWAY = pb.NamespacePartition(partition=1, conditions=["its store is not open", "StoreFailed"])


def entry(partition: int, level: str, message: str, action: str = "x") -> str:
    facts = {"level": level, "message": message, "partition": partition, "action": action}
    return json.dumps(facts) + "\n"


def test_a_partition_that_serves_is_not_told_of() -> None:
    serving = pb.NamespacePartition(partition=0, available=True, conditions=["ClockJump"])

    assert management.say_unavailable([serving], {}) == []


def test_the_last_error_in_its_log_says_why_a_partition_does_not_serve(tmp_path: Path) -> None:
    log = tmp_path / "partition-server-0.log"
    said = "partition 1: store failed: it has format 99. Use the version that wrote it."
    lines = [entry(1, "error", "old"), entry(1, "error", said), entry(3, "error", "another")]
    log.write_text("no json\n" + "".join(lines), encoding="utf-8")

    assert management.say_unavailable([AWAY], {1: log}) == [
        "Partition 1 does not serve: store failed: it has format 99. Use the version that wrote it."
    ]


def test_without_a_word_in_a_log_the_front_ends_word_is_told(tmp_path: Path) -> None:
    log = tmp_path / "partition-server-0.log"
    log.write_text(entry(1, "error", "old") + entry(1, "info", "", action="open"), encoding="utf-8")
    expected = ["Partition 1 does not serve: its store is not open; StoreFailed."]

    assert management.say_unavailable([AWAY], {1: log}) == expected
    assert management.say_unavailable([AWAY], {1: tmp_path / "none"}) == expected
    assert management.say_unavailable([AWAY], {}) == expected
