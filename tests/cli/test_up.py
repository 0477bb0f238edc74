"""`bendybus up` with real processes: start, outage, restart, end. The servers are fakes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from bendybus.cli import __main__ as command
from bendybus.cli.local import control, data_directory, programs
from tests.ports import free_port

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
FLIGHTS = ROOT / "examples" / "flights.yaml"
# Far more than any machine needs: it ends a test that would wait for ever.
DEADLINE_S = 60.0


class Start(Protocol):
    def __call__(
        self, *, manifest: Path = FLIGHTS, port: int = 0, flags: tuple[str, ...] = ("--json",)
    ) -> "subprocess.Popen[str]": ...


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def start(data: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start_one(
        *, manifest: Path = FLIGHTS, port: int = 0, flags: tuple[str, ...] = ("--json",)
    ) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.cli.fake_up",
                str(data),
                str(manifest),
                str(port),
                *flags,
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def ready(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError(process.communicate(timeout=DEADLINE_S)[1])
    facts: dict[str, Any] = json.loads(line)
    return facts


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2][1] != "Z"
    except OSError:
        return False


def processes(data: Path) -> list[dict[str, Any]]:
    run = data_directory.read_run(data)
    assert run is not None
    found: list[dict[str, Any]] = control.ask(run["control"], {"action": "ps"})["processes"]
    return found


def asked(data: Path, name: str) -> list[str]:
    lines = (data / "asked").read_text("utf-8").splitlines()
    return [address for asking, address in map(str.split, lines) if asking == name]


def test_the_ready_line_is_one_json_object_that_names_everything(start: Start, data: Path) -> None:
    process = start()

    facts = ready(process)

    assert set(facts) == {
        "connection_string",
        "amqp_connection_string",
        "amqp_endpoints",
        "http_endpoints",
        "ca_file",
        "endpoint",
        "endpoints",
        "data",
        "processes",
        "metrics",
    }
    assert facts["data"] == str(data)
    assert f"sb://{facts['endpoint']};" in facts["connection_string"]
    roles = [(each["role"], each["partitions"]) for each in facts["processes"]]
    assert roles == [
        ("partition-server", list(range(0, 16, 2))),
        ("partition-server", list(range(1, 16, 2))),
        ("frontend", []),
    ]
    assert all(alive(each["pid"]) for each in facts["processes"])


def test_a_partition_that_does_not_serve_is_told_of_with_what_its_log_says(
    start: Start, data: Path
) -> None:
    (data / "away").write_text("5", encoding="utf-8")
    process = start()
    ready(process)
    process.send_signal(signal.SIGTERM)

    told = process.communicate(timeout=DEADLINE_S)[1].splitlines()

    assert told == ["Partition 5 does not serve: store failed: its format is new"]


def test_run_json_is_for_its_owner_only_and_gone_after_the_end(start: Start, data: Path) -> None:
    process = start()
    facts = ready(process)
    mode = (data / "run.json").stat().st_mode & 0o777

    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=DEADLINE_S)

    assert mode == 0o600
    assert code == 0
    assert not (data / "run.json").exists()
    assert not any(alive(each["pid"]) for each in facts["processes"])


def test_sigterm_ends_it_as_ctrl_c_does(start: Start) -> None:
    process = start()
    ready(process)

    process.terminate()

    assert process.wait(timeout=DEADLINE_S) == 0


def test_a_second_signal_ends_children_that_do_not_listen(start: Start, data: Path) -> None:
    (data / "stubborn").touch()
    process = start()
    facts = ready(process)

    process.terminate()
    time.sleep(0.3)
    process.terminate()
    process.wait(timeout=DEADLINE_S)

    assert not any(alive(each["pid"]) for each in facts["processes"])


def test_no_child_outlives_a_killed_up(start: Start) -> None:
    process = start()
    facts = ready(process)

    process.kill()

    until(lambda: not any(alive(each["pid"]) for each in facts["processes"]))


def test_a_second_up_on_the_same_data_is_refused_and_names_the_first(start: Start) -> None:
    first = start()
    port = int(ready(first)["endpoint"].rpartition(":")[2])

    # As it is typed: the port is that of the first one, too, which says less.
    second = start(port=port)
    errors = second.communicate(timeout=DEADLINE_S)[1]

    assert second.returncode == 1
    assert f"is in use by another bendybus up (pid {first.pid})" in errors
    assert first.poll() is None


def test_a_run_json_left_behind_by_a_killed_up_counts_as_nothing(start: Start, data: Path) -> None:
    first = start()
    ready(first)
    first.kill()
    first.wait(timeout=DEADLINE_S)

    stale = data_directory.read_run(data)
    facts = ready(start())

    assert stale is None
    assert data_directory.read_run(data) is not None
    assert facts["processes"]


def test_a_killed_up_leaves_its_socket_in_its_data(start: Start, data: Path) -> None:
    first = start()
    ready(first)
    left = Path(json.loads((data / "run.json").read_text("utf-8"))["control"])
    first.kill()
    first.wait(DEADLINE_S)

    ready(start())

    assert left == data / "control"
    assert len(processes(data)) == 3


def test_a_process_that_dies_is_started_again_at_the_same_address(start: Start, data: Path) -> None:
    facts = ready(start())
    before = facts["processes"][0]

    os.kill(before["pid"], signal.SIGKILL)

    until(lambda: processes(data)[0]["restarts"] == 1 and processes(data)[0]["state"] == "running")
    after = processes(data)[0]
    assert after["pid"] != before["pid"]
    assert after["address"] == before["address"]
    run = data_directory.read_run(data)
    assert run is not None
    assert run["processes"][0]["pid"] == after["pid"]


def test_a_process_that_keeps_dying_is_started_less_and_less_often(
    start: Start, data: Path
) -> None:
    ready(start())

    (data / "die-frontend").touch()
    until(lambda: processes(data)[2]["restarts"] >= 3)
    (data / "die-frontend").unlink()

    until(lambda: processes(data)[2]["state"] == "running")
    assert processes(data)[2]["restarts"] < 10


def test_a_stopped_partition_stays_down_until_it_is_started(start: Start, data: Path) -> None:
    facts = ready(start())
    run = data_directory.read_run(data)
    assert run is not None

    stopped = control.ask(run["control"], {"action": "stop", "partition": 3})
    time.sleep(0.5)
    while_down = processes(data)[1]
    started = control.ask(run["control"], {"action": "start", "partition": 3})

    assert stopped == {"partitions": list(range(1, 16, 2)), "pid": facts["processes"][1]["pid"]}
    assert (while_down["state"], while_down["pid"]) == ("stopped", 0)
    assert alive(started["pid"])
    assert processes(data)[1]["state"] == "running"
    assert processes(data)[1]["address"] == facts["processes"][1]["address"]


def test_ps_and_partition_are_commands(
    start: Start, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ready(start())
    of_data = ["--data", str(data)]

    codes = [
        command.main([*of_data, "partition", "stop", "2"]),
        command.main([*of_data, "partition", "stop", "2"]),
        command.main([*of_data, "partition", "start", "2"]),
        command.main([*of_data, "partition", "stop", "99"]),
        command.main([*of_data, "ps"]),
        command.main([*of_data, "ps", "--json"]),
    ]
    shown = capsys.readouterr()

    assert codes == [0, 0, 0, 3, 0, 0]
    assert "Partition 2 is down (pid " in shown.out
    assert "Partition 2 is down, and with it " in shown.out
    assert "pid 0" not in shown.out
    assert "and with it 0, 4, 6, 8, 10, 12, 14 of the same process" in shown.out
    assert "Partition 99 does not exist; this bus has 0 to 15." in shown.err
    last = json.loads(shown.out.splitlines()[-1])
    assert (last["role"], last["state"]) == ("frontend", "running")
    assert last["rss_bytes"] > 0


def test_a_server_that_cannot_start_ends_up_with_its_own_words(start: Start, data: Path) -> None:
    (data / "fail-partition-server").touch()

    process = start()
    errors = process.communicate(timeout=DEADLINE_S)[1]

    assert process.returncode == 1
    assert "did not start: the file belongs to another bus (log: " in errors
    assert "Traceback" not in errors
    assert not (data / "run.json").exists()


@pytest.mark.parametrize("role", ["partition-server", "frontend"])
def test_a_port_that_was_free_and_is_taken_meanwhile_is_chosen_again(
    start: Start, data: Path, role: str
) -> None:
    (data / f"taken-{role}").write_text("2", encoding="utf-8")

    facts = ready(start())

    addresses = asked(data, role)
    served = [each["address"] for each in facts["processes"] if each["role"] == role]
    if role == "partition-server":
        # Those that knew the old address are started again, where they were.
        assert sorted(addresses[-len(served) :]) == sorted(served)
        addresses = addresses[: -len(served)]
    assert len(addresses) == len(set(addresses)) == len(served) + 2
    assert set(served) <= set(addresses)


def test_ports_are_not_chosen_again_without_end(start: Start, data: Path) -> None:
    (data / "taken-frontend").write_text("99", encoding="utf-8")

    process = start()
    errors = process.communicate(timeout=DEADLINE_S)[1]

    assert process.returncode == 1
    assert "did not start: cannot listen at 127.0.0.1:" in errors


def test_ports_lie_below_those_of_connections_and_none_is_chosen_twice() -> None:
    found = [programs.free_port() for _ in range(500)]

    assert len(set(found)) == 500
    assert max(found) < int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert free_port() < min(found), "that of a test"
    assert programs.port_near(found[0] - 1, 1) != found[0]


def test_a_folder_of_another_tier_is_refused_and_left_as_it_is(
    start: Start, data: Path, tmp_path: Path
) -> None:
    ready(first := start())
    first.terminate()
    first.wait(timeout=DEADLINE_S)
    before = (data / "namespace.json").read_text(encoding="utf-8")
    premium = tmp_path / "premium.yaml"
    text = (
        FLIGHTS.read_text(encoding="utf-8")
        .partition("---")[0]
        .replace("tier: Standard", "tier: Premium\n  premiumMessagingPartitions: 4")
    )
    premium.write_text(text, encoding="utf-8")

    process = start(manifest=premium)
    errors = process.communicate(timeout=DEADLINE_S)[1]

    assert process.returncode == 1
    assert "sku.tier is Standard since the namespace was created and cannot become" in errors
    assert (data / "namespace.json").read_text(encoding="utf-8") == before


def test_queues_without_a_namespace_get_one_called_default_and_the_ready_line_says_so(
    start: Start, tmp_path: Path
) -> None:
    manifest = tmp_path / "queue.yaml"
    manifest.write_text(
        "apiVersion: bendybus.io/v1alpha1\nkind: Queue\nmetadata: {name: orders}\n",
        encoding="utf-8",
    )

    process = start(manifest=manifest, flags=())
    assert process.stdout is not None
    line = process.stdout.readline()

    assert line.startswith("Ready: bus 'default' (Standard, implied: no BusNamespace was given)")


def test_the_uid_of_a_bus_is_kept_between_runs(start: Start, data: Path) -> None:
    uids = []
    for _ in range(2):
        process = start()
        ready(process)
        uids.append(json.loads((data / "namespace.json").read_text(encoding="utf-8"))["uid"])
        process.terminate()
        process.wait(timeout=DEADLINE_S)

    assert uids[0] == uids[1]
