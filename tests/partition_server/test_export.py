"""Export of messages as JSON lines."""

import json
import subprocess
import sys

import pytest

from bendybus.partition_server.store.sqlite_store import SqliteStore
from bendybus.v1 import message_pb2
from tests.partition_server.driver import Driver
from tests.partition_server.test_store_command import lines_of, run

# Export


def test_export_decodes_messages(
    busy: Driver, store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("export", store.path, "--entity", "ORDERS") == 0

    lines = lines_of(capsys)
    first = lines[0]
    assert first["body"] == "café"
    assert first["state"] == "Deferred"
    assert first["message_id"] == "a"
    assert first["application_properties"] == {
        "n": 7,
        "who": "00010203-0405-0607-0809-0a0b0c0d0e0f",
        "raw": "/w==",
    }
    assert [line["state"] for line in lines].count("Scheduled") == 1
    [dead] = [line for line in lines if line.get("sub_queue")]
    assert dead["dead_letter_reason"] == "Bad"


@pytest.mark.requirement("R521")
def test_export_shows_the_properties_that_a_receiver_would_get(
    busy: Driver, store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("export", store.path, "--entity", "ORDERS") == 0

    [dead] = [line for line in lines_of(capsys) if line.get("sub_queue")]
    assert dead["application_properties"] == {"DeadLetterReason": "Bad"}


def test_export_keeps_what_it_cannot_decode(
    store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = Driver(store)
    driver.create()
    driver.send(b"\xff\xff")

    assert run("export", store.path) == 0

    assert lines_of(capsys)[0]["payload_base64"] == "//8="


def test_export_joins_head_and_body(store: SqliteStore, capsys: pytest.CaptureFixture[str]) -> None:
    driver = Driver(store)
    driver.create()
    head = message_pb2.Message(
        subject="s",
        content_encoding="gzip",
        user_id=b"\xff",
        priority=0,
        creation_time_ms=0,
        absolute_expiry_time_ms=2**62,
        annotations={"a": message_pb2.Value(int_value=1)},
        application_properties={"p": message_pb2.Value(encoded_value=b"\xff")},
        amqp_escapes=b"\xff",
    )
    body = message_pb2.Message(data=[b"x"], footer={"f": message_pb2.Value(bool_value=True)})
    driver.send(body.SerializeToString(), heads=[head.SerializeToString()], formats=[1])
    driver.send(b"\xff", heads=[b"\xff"], formats=[1])

    assert run("export", store.path) == 0
    first, second = lines_of(capsys)

    assert (first["body"], first["subject"], first["content_encoding"]) == ("x", "s", "gzip")
    assert (first["user_id"], first["priority"]) == ("/w==", 0)
    assert first["absolute_expiry_time"] == 2**62
    assert (first["application_properties"], first["amqp_escapes"]) == ({"p": "/w=="}, "/w==")
    assert (first["annotations"], first["footer"]) == ({"a": 1}, {"f": True})
    assert second["payload_base64"] == "//8="
    assert run("check", store.path) == 0


def test_export_of_an_unknown_queue_names_those_there_are(
    busy: Driver, store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("export", store.path, "--entity", "nope") == 1

    assert "it has: orders" in capsys.readouterr().err


def test_a_reader_that_stops_early_is_no_trouble(busy: Driver, store: SqliteStore) -> None:
    busy.send(*[b"x" * 1_000] * 200, groups=(200,))
    command = f"{sys.executable} -m bendybus.partition_server store export {store.path} | head -1"

    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)

    assert done.stderr == ""
    assert json.loads(done.stdout)["entity"] == "orders"
