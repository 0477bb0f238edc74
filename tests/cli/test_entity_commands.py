"""`apply`, `get`, `describe`, `delete` against a management service in memory."""

import io
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from bendybus.cli import __main__ as command
from bendybus.cli.commands import completion
from bendybus.domain import errors
from bendybus.domain.entity import Origin
from bendybus.v1 import management_pb2 as pb
from tests.cli.fake_management import FakeManagement

ROOT = Path(__file__).parents[2]
FLIGHTS = str(ROOT / "examples" / "flights.yaml")


def run(bus: FakeManagement, *arguments: str) -> int:
    string = f"Endpoint=sb://{bus.address};SharedAccessKey=x;UseDevelopmentEmulator=true"
    return command.main(["--connection-string", string, *arguments])


def test_apply_creates_what_is_new_and_repeats_without_a_change(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(bus, "apply", "-f", FLIGHTS)
    second = run(bus, "apply", "-f", FLIGHTS)

    shown = capsys.readouterr().out.splitlines()
    assert (first, second) == (0, 0)
    assert bus.calls == ["create flights", "create audit"]
    assert shown[0] == (
        "queue 'flights': created; not yet on partition 15, which will follow when it is available"
    )
    assert shown[2:] == ["queue 'flights': unchanged", "queue 'audit': unchanged"]


def test_what_is_wrong_with_standard_input_is_said_of_stdin(
    bus: FakeManagement, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"kind: Foo\n")))

    code = run(bus, "apply", "-f", "-")

    assert code == 1
    assert capsys.readouterr().err.startswith("bendybus: stdin, document 1, Foo: ")


def test_apply_updates_what_changed_and_keeps_what_is_in_no_manifest(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("flights", Origin.MANIFEST, enable_partitioning=True, max_delivery_count=3)
    bus.add("old", Origin.MANIFEST)
    bus.add("someones", Origin.CLIENT)

    code = run(bus, "apply", "-f", FLIGHTS, "--json")

    changes = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert [(each["name"], each["change"]) for each in changes] == [
        ("flights", "updated"),
        ("audit", "created"),
        ("old", "kept"),
    ]
    assert bus.calls == ["update flights", "create audit"]


def test_apply_changes_nothing_when_one_change_is_impossible(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("flights", Origin.MANIFEST, enable_partitioning=False)

    code = run(bus, "apply", "-f", FLIGHTS)

    assert code == 1
    assert bus.calls == []
    assert (
        "enablePartitioning cannot be changed after creation (is false" in capsys.readouterr().err
    )


def test_apply_does_not_take_over_what_a_client_made(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("AUDIT", Origin.CLIENT)

    code = run(bus, "apply", "-f", FLIGHTS)

    assert code == 1
    assert bus.calls == []
    assert "queue 'AUDIT' was created by an administration call" in capsys.readouterr().err


def test_apply_tries_again_when_the_bus_says_that_it_may_help(bus: FakeManagement) -> None:
    bus.failures = [errors.PartitionUnavailable("The registrar is away.", retry_after_ms=10)]

    code = run(bus, "apply", "-f", FLIGHTS)

    assert code == 0


def test_an_update_that_was_done_half_way_is_seen_through(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("flights", Origin.MANIFEST, enable_partitioning=True, max_delivery_count=3)
    half = errors.PartitionUnavailable("Recorded, not everywhere.", metadata={"when": "half-way"})
    bus.failures = [half]

    code = run(bus, "apply", "-f", FLIGHTS)

    assert code == 0, capsys.readouterr().err
    assert bus.calls == ["update flights", "update flights", "create audit"]
    assert "queue 'flights': updated" in capsys.readouterr().out


def test_apply_to_another_bus_is_refused(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.name = "other"

    code = run(bus, "apply", "-f", FLIGHTS)

    assert code == 1
    assert "the bus that answers is 'other'" in capsys.readouterr().err


def test_get_shows_a_table_and_wide_shows_more(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    bus.unreached = ()
    for name in ("c", "a", "b"):
        bus.add(name, Origin.MANIFEST)

    codes = [run(bus, "get"), run(bus, "get", "queues", "-o", "wide")]

    lines = capsys.readouterr().out.splitlines()
    assert codes == [0, 0]
    assert [line.split()[0] for line in lines[:4]] == ["NAME", "a", "b", "c"]
    assert lines[1].split() == ["a", "1", "Active", "Available", "1", "0", "0"]
    assert "ORIGIN" in lines[4]
    assert "Manifest" in lines[5]


@pytest.mark.requirement("R266")
def test_wide_shows_the_size_that_a_queue_may_have_on_all_partitions_and_where_it_forwards_to(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    bus.add("plain", Origin.MANIFEST, forward_to="large")
    bus.add("large", Origin.CLIENT, enable_partitioning=True, max_size_in_megabytes=5_120)

    run(bus, "get", "-o", "wide")

    header, *rows = capsys.readouterr().out.splitlines()
    at = {title: header.index(title) for title in ("FORWARD-TO", "MAX-SIZE")}
    large, plain = (next(row for row in rows if row.startswith(n)) for n in ("large", "plain"))
    assert "80.0 GB" in large
    assert " 1.0 GB" in plain
    assert plain[at["FORWARD-TO"] :].split()[0] == "large"
    assert large[at["FORWARD-TO"] :].split()[0] == "-"


def test_json_is_one_object_a_line_with_the_names_of_manifests(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("orders", Origin.MANIFEST, enable_partitioning=True)

    code = run(bus, "get", "orders", "-o", "json")

    facts = json.loads(capsys.readouterr().out)
    assert (code, facts["reachable"]) == (5, False)
    assert facts["spec"]["enablePartitioning"] is True
    assert facts["spec"]["lockDuration"] == "PT1M"
    assert facts["runtime"]["countDetails"]["activeMessageCount"] == 16
    assert facts["runtime"]["partitions"][15]["reachable"] is False


def test_describe_shows_the_share_of_each_partition(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("orders", Origin.CLIENT, enable_partitioning=True)

    code = run(bus, "describe", "queue", "orders")

    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert code == 5
    assert said.err.startswith("bendybus: Partition 15 did not answer: the figures of 1 entity")
    assert [line.split() for line in lines if line.startswith("size")] == [["size", "1.6", "KB+"]]
    assert lines[-4].split() == ["14", "yes", "1", "0", "0", "0", "100", "B"]
    assert lines[-3].split() == ["15", "no", "-", "-", "-", "-", "-"]
    assert lines[-2:] == ["", "Partition 15 does not serve: its store is not open."]


def test_delete_needs_yes_where_nobody_can_be_asked(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("orders", Origin.CLIENT)

    asked = run(bus, "delete", "queue", "orders")
    done = run(bus, "delete", "queue", "orders", "--yes")

    assert (asked, done) == (2, 0)
    assert bus.calls == ["delete orders"]
    assert "Confirm with --yes" in capsys.readouterr().err


def test_what_a_deletion_takes_along_is_counted_whatever_its_kind(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = pb.MessageCountDetails(
        active_message_count=1,
        dead_letter_message_count=2,
        scheduled_message_count=4,
        deferred_message_count=8,
    )
    bus.add("orders", Origin.CLIENT)
    bus.count("orders", counts)

    run(bus, "delete", "queue", "orders", "--dry-run")

    assert "would be deleted, with its 15 messages" in capsys.readouterr().out


def test_get_takes_the_word_queue_before_a_name_as_other_commands_do(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("orders", Origin.CLIENT)
    bus.add("queue", Origin.CLIENT)

    codes = [run(bus, "get", "queue", "orders"), run(bus, "get", "queue", "queue")]
    orders, queue = (line for line in capsys.readouterr().out.splitlines() if "NAME" not in line)
    wrong = run(bus, "get", "orders", "queue")

    assert (codes, wrong) == ([0, 0], 2)
    assert (orders.split()[0], queue.split()[0]) == ("orders", "queue")


def test_what_does_not_exist_ends_with_3(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(bus, "describe", "queue", "nothing")

    assert code == 3
    assert "There is no queue 'nothing'" in capsys.readouterr().err


def test_a_bus_that_does_not_answer_ends_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    string = "Endpoint=sb://127.0.0.1:9;SharedAccessKey=x;UseDevelopmentEmulator=true"

    code = command.main(["--connection-string", string, "get"])

    assert code == 4
    assert "No bus answers at 127.0.0.1:9. Is it running?" in capsys.readouterr().err


def test_what_no_partition_counted_is_a_dash(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.unreached = tuple(range(16))
    bus.add("away", Origin.CLIENT)

    assert run(bus, "get", "queues") == 5

    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[-3:] == ["-", "-", "-"]


def test_a_dry_run_changes_nothing(bus: FakeManagement, capsys: pytest.CaptureFixture[str]) -> None:
    bus.add("old", Origin.CLIENT)

    codes = [
        run(bus, "apply", "-f", FLIGHTS, "--dry-run"),
        run(bus, "create", "queue", "new", "--partitioned", "--dry-run"),
        run(bus, "delete", "queue", "old", "--dry-run"),
    ]

    assert codes == [0, 0, 0]
    assert bus.calls == []
    assert "queue 'flights': created (dry run)" in capsys.readouterr().out


def test_a_queue_is_made_by_hand_with_the_fields_of_a_manifest(bus: FakeManagement) -> None:
    made = run(bus, "create", "queue", "new", "--partitioned", "--set", "maxDeliveryCount=3")
    refused = run(bus, "create", "queue", "bad", "--set", "colour=red")

    assert (made, refused) == (0, 2)
    assert bus.calls == ["create new"]


def test_what_is_wrong_with_a_queue_made_by_hand_is_named_as_it_was_typed(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [
        run(bus, "create", "queue", "bad name!"),
        run(bus, "create", "queue", "new", "--requires-session", "--set", "requiresSession=false"),
        run(bus, "create", "queue", "new", "--set", "lockDuration=1h"),
        run(bus, "create", "queue", "new", "--set", "maxMessageSizeInKilobytes=0"),
    ]

    name, session, duration, size = capsys.readouterr().err.splitlines()
    assert codes == [2, 2, 2, 2]
    assert size.endswith("--set maxMessageSizeInKilobytes: must be at least 1 (got 0).")
    assert session.startswith("bendybus: --set requiresSession: contradicts itself (got 'false'")
    assert name.startswith("bendybus: Name of the queue: 'bad name!' must be segments of letters")
    assert duration.startswith("bendybus: --set lockDuration: must be an ISO 8601 duration")


def test_queues_are_shown_as_yaml(bus: FakeManagement, capsys: pytest.CaptureFixture[str]) -> None:
    bus.add("orders", Origin.CLIENT)

    assert run(bus, "get", "queues", "-o", "yaml") == 0

    [shown] = yaml.safe_load_all(capsys.readouterr().out)
    assert shown["name"] == "orders"


def test_names_of_queues_are_completed(
    bus: FakeManagement, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus.add("orders", Origin.CLIENT)
    bus.add("other", Origin.CLIENT)
    root = SimpleNamespace(params={"connection_string": f"Endpoint=sb://{bus.address};"
                                   "SharedAccessKey=x;UseDevelopmentEmulator=true"})  # fmt: skip
    context = SimpleNamespace(find_root=lambda: root)

    assert completion.queue_names(context, "or") == ["orders"]  # type: ignore[arg-type]
    root.params = {"connection_string": "Endpoint=sb://127.0.0.1:1;UseDevelopmentEmulator=true"}
    assert completion.queue_names(context, "") == []  # type: ignore[arg-type]


def test_a_missing_extra_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    code = command.main(["up", "-f", FLIGHTS])

    assert code == 1
    assert "pip install '.[server]'" in capsys.readouterr().err


def test_a_bus_that_is_down_is_the_same_sentence_for_every_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;"
    options = ["--connection-string", where + "UseDevelopmentEmulator=true"]

    commands = (["get", "queues"], ["peek", "q"], ["send", "q", "x"], ["purge", "q", "-y"])
    with ThreadPoolExecutor(len(commands)) as pool:
        codes = list(pool.map(lambda arguments: command.main([*arguments, *options]), commands))

    said = capsys.readouterr().err.splitlines()
    assert (codes, len(said), len(set(said))) == ([4] * 4, 4, 1)
    assert said[0].startswith("bendybus: No bus answers at 127.0.0.1:1.")


def test_the_version_needs_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("bendybus ")


@pytest.mark.integration
def test_a_bus_that_speaks_plain_text_is_told_of_in_one_sentence(bus: FakeManagement) -> None:
    options = [
        "--connection-string",
        f"Endpoint=sb://{bus.address};SharedAccessKeyName=a;SharedAccessKey=b",
    ]

    done = subprocess.run(
        [sys.executable, "-m", "bendybus.cli", *options, "get"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert done.returncode == 4
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["bendybus"]
    assert "does not use TLS" in done.stderr


def test_authorities_that_are_not_there_are_refused(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(bus, "--ca-file", "/no/such.crt", "get") == 2
    assert "/no/such.crt" in capsys.readouterr().err


@pytest.mark.requirement("R202")
def test_a_migrated_queue_is_created_only_where_asked(bus: FakeManagement) -> None:
    codes = [run(bus, "create", "queue", "a"), run(bus, "create", "queue", "b", "--migrated")]

    assert codes == [0, 0]
    assert bus.calls == ["create a", "create b migrated"]
