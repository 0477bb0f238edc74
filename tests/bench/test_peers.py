"""What is said of a peer that cannot be measured, and how those in a JVM are configured."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest

from bench import loads
from bench.peers import artemis, jvm, kafka, peer
from bench.peers.peer import UnavailableError
from bench.row import Row
from tools import jars


def test_a_peer_that_cannot_be_measured_is_a_row_with_the_reason_for_each_of_its_systems() -> None:
    rows: list[Row] = []

    with peer.skipping(["one", "two"], rows.append):
        raise UnavailableError("did not start: no memory")

    assert [(row.system, row.what, row.note) for row in rows] == [
        ("one", "skipped", "did not start: no memory"),
        ("two", "skipped", "did not start: no memory"),
    ]


def test_a_defect_while_measuring_is_not_taken_for_a_peer_that_is_missing() -> None:
    rows: list[Row] = []

    with pytest.raises(AssertionError), peer.skipping(["one"], rows.append):
        raise AssertionError("9 of 10 sends were confirmed")

    assert rows == []


@pytest.mark.parametrize(
    ("package", "module", "note"),
    [("no-such-server", "json", "no-such-server"), ("sh", "no_such_client", "requirements/bench")],
)
def test_the_row_of_a_missing_peer_names_what_to_install(
    package: str, module: str, note: str
) -> None:
    rows: list[Row] = []

    assert peer.missing(("one",), package, module, rows.append)

    assert note in rows[0].note


def test_nothing_is_said_of_a_peer_that_is_there() -> None:
    rows: list[Row] = []

    assert not peer.missing(("one",), "sh", "json", rows.append)

    assert rows == []


@pytest.mark.parametrize("module", [artemis, kafka])
def test_a_jvm_peer_is_left_out_with_a_reason_when_java_is_missing(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Row] = []
    monkeypatch.setattr(peer, "program", lambda name: None)
    monkeypatch.setattr(peer, "require_client", lambda module: None)

    module.measure(loads.QUICK, tmp_path, rows.append)

    assert {row.what for row in rows} == {"skipped"}
    assert all("openjdk-17" in row.note for row in rows)


def test_a_jvm_has_a_bounded_heap_and_ends_with_the_process_that_measures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer, "program", lambda name: f"/bin/{name}")
    monkeypatch.setattr(jars, "classpath", lambda path: f"{path.stem}.jar")

    command = jvm.command("kafka", ["kafka.Kafka", "x"])

    assert command[:3] == ["/bin/setpriv", "--pdeathsig", "TERM"]
    assert "-Xmx512m" in command
    assert command[-4:] == ["-cp", "kafka.jar", "kafka.Kafka", "x"]


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("INFO start\nException: port in use\n  at Main\n", "Exception: port in use"),
        ("killed\n", "killed"),
        ("", "no output"),
    ],
)
def test_the_reason_why_a_jvm_did_not_start_is_one_line_of_its_log(
    log: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_text(log, encoding="utf-8")

    assert jvm.reason(path) == reason


def test_artemis_is_durable_and_listens_on_loopback_only(tmp_path: Path) -> None:
    xml = artemis.configuration(loads.QUICK, tmp_path / "a&b", 1234, 200_000)

    core = ElementTree.fromstring(xml)[0]
    found = {each.tag.rpartition("}")[2]: each for each in core.iter()}
    assert found["journal-datasync"].text == found["persistence-enabled"].text == "true"
    assert found["journal-buffer-timeout"].text == "200000"
    assert found["acceptor"].text == "tcp://127.0.0.1:1234?protocols=STOMP"
    assert found["journal-directory"].text == f"{tmp_path}/a&b/data/journal"


def test_artemis_listens_for_the_one_protocol_that_is_measured(tmp_path: Path) -> None:
    xml = artemis.configuration(loads.QUICK, tmp_path, 1234, 200_000, "AMQP")

    core = ElementTree.fromstring(xml)[0]
    found = [each.text for each in core.iter() if each.tag.endswith("}acceptor")]
    assert found == ["tcp://127.0.0.1:1234?protocols=AMQP"]


def test_the_time_of_a_synced_write_is_measured_and_leaves_nothing_behind(tmp_path: Path) -> None:
    assert artemis.sync_ns(tmp_path) > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("durability", kafka.SYSTEMS.values())
def test_kafka_listens_on_loopback_only_and_flushes_when_it_should(
    durability: str, tmp_path: Path
) -> None:
    text = kafka.properties(tmp_path, 1, 2, durability)

    found = dict(line.split("=", 1) for line in text.splitlines() if line)
    assert found["listeners"] == "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
    assert found["log.dirs"] == f"{tmp_path}/data"
    assert found.get("log.flush.interval.messages") == ("1" if durability else None)
