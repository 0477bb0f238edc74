"""Sends that may be stored twice."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.client.core import send_queue
from bendybus.client.core.send_queue import PossibleDuplicates


def unit(*ids: str) -> Any:
    """Return a unit of `orders` with messages of these ids."""
    columns = SimpleNamespace(message_ids=list(ids))
    return SimpleNamespace(entity_path="orders", columns=columns)


def test_the_ids_are_kept_up_to_a_limit() -> None:
    found = PossibleDuplicates()
    found.add([unit("a", "b"), unit("c")], 0.0)

    assert list(found.ids) == [("orders", "a"), ("orders", "b"), ("orders", "c")]
    assert found.ids.maxlen == send_queue.IDS_MAX == 10_000


def test_they_are_logged_at_most_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="bendybus")
    found = PossibleDuplicates()

    for second in range(12):
        found.add([unit("a")], float(second))

    said = [record.getMessage() for record in caplog.records]
    assert [text.split(": ")[2].split(" ")[0] for text in said] == ["1", "10"]
    assert {record.name for record in caplog.records} == {"bendybus.client"}
