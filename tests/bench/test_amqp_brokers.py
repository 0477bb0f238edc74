"""What is said of brokers with AMQP 1.0 that cannot be measured."""

from pathlib import Path

import pytest

from bench import loads
from bench.amqp import brokers, clients
from bench.amqp.orders import Place
from bench.peers import peer
from bench.peers.peer import UnavailableError
from bench.row import Row


def test_a_broker_that_is_not_installed_is_a_row_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Row] = []
    monkeypatch.setattr(peer, "program", lambda name: None)
    monkeypatch.setattr(peer, "require_client", lambda module: None)

    brokers.measure(loads.QUICK, tmp_path, rows.append)

    assert {row.system for row in rows} == {brokers.ARTEMIS, *brokers.RABBITMQ}
    assert {row.what for row in rows} == {"skipped"}
    assert all("apt install" in row.note for row in rows)


def test_without_proton_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place("127.0.0.1:1", "queue", durable=True, echoes=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(UnavailableError, match="Proton"), clients.running(place):
        pass
