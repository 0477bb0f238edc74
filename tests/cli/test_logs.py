"""`bendybus logs`: lines of processes as people and programs read them, local and on a cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bendybus.cli import __main__ as command
from bendybus.cli.commands import log_command
from bendybus.cli.commands.log_command import LogFile
from tests.cli.conftest import FakeKubectl
from tests.cli.test_up import Start, data, ready, start

__all__ = ["data", "start"]
pytestmark = pytest.mark.requirement("R372")
Capture = pytest.CaptureFixture[str]


def entry(time: str, message: str, **more: object) -> str:
    return json.dumps({"time": time, "level": "info", "logger": "l", "message": message, **more})


def test_a_line_is_shown_with_its_fields_and_any_text_is_a_message() -> None:
    first = log_command.parse_line("a", entry("T1", "m", action="x", port=7, exception="E1\nE2"))

    assert str(first) == "T1 info a: m  port=7\nE1\nE2"
    assert first.as_json()["process"] == "a"
    assert str(log_command.parse_line("a", "[1, 2]")) == "a: [1, 2]"
    assert log_command.parse_line("b", f"[pod/p-0/server] {entry('T', 'm')}").process == "p-0"


def test_lines_of_several_processes_are_in_the_order_of_their_times() -> None:
    lines = [
        log_command.parse_line(process, text)
        for process, text in [
            ("a", entry("T2", "second")),
            ("a", "a trace of it"),
            ("b", entry("T1", "first")),
            ("b", entry("T3", "third")),
        ]
    ]

    found = [line.entry["message"] for line in log_command.by_time(lines)]

    assert found == ["first", "second", "a trace of it", "third"]


def test_a_log_is_read_from_its_end_and_on_and_again_when_it_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"line {number}\n" for number in range(20_000)), encoding="utf-8")
    log = LogFile("a", path)

    assert log.last(2) == ["line 19998", "line 19999"]
    assert log.added() == []
    with path.open("a", encoding="utf-8") as file:
        file.write("new\nhalf")
    assert log.added() == ["new"]
    with path.open("a", encoding="utf-8") as file:
        file.write(" a line\n")
    assert log.added() == ["half a line"]
    path.write_text("cut\n", encoding="utf-8")
    assert log.added() == ["cut"]
    (tmp_path / "b").write_text("other\n" * 9, encoding="utf-8")
    (tmp_path / "b").replace(path)
    assert log.added() == ["other"] * 9
    assert len(LogFile("a", path).last(-1)) == 9
    assert LogFile("a", path).last(0) == []
    assert LogFile("a", tmp_path / "none").last(5) == []


@pytest.mark.integration
@pytest.mark.requirement("R442")
def test_the_last_lines_of_a_partition_are_its_own_however_much_others_said(
    tmp_path: Path, capsys: Capture
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    lines = [entry(f"T{number}", f"one {number}", partition=1) for number in range(3)]
    lines += [entry("U", "two", partition=2) for _ in range(500)]
    (folder / "partition-server-0.log").write_text("\n".join(lines) + "\n", encoding="utf-8")

    codes = [
        command.main(["logs", "--data", str(tmp_path), "partition", "1", "--tail", count])
        for count in ("2", "0", "-1")
    ]

    assert codes == [0, 0, 0]
    shown = [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["one 1", "one 2", "one 0", "one 1", "one 2"]


def test_logs_of_a_local_bus_by_process_also_when_it_has_ended(
    start: Start, data: Path, capsys: Capture
) -> None:
    (data / "away").write_text("5", encoding="utf-8")
    process = start()
    ready(process)
    of_data = ["--data", str(data)]

    def said(*words: str) -> str:
        assert command.main([*of_data, "logs", *words]) == 0
        return capsys.readouterr().out

    own, other, front = said("partition", "5"), said("partition", "3"), said("frontend")
    whole = said("-o", "json")
    code = command.main([*of_data, "logs", "partition", "99"])
    process.kill()
    process.wait(30)
    left = said("partition", "5")

    line = "error partition-server-1: partition 5: store failed: its format is new\n"
    assert own == left == line.replace("error ", "")
    assert (other, front) == ("", "")
    assert json.loads(whole)["process"] == "partition-server-1"
    assert code == 3


@pytest.mark.requirement("R477")
@pytest.mark.parametrize(
    ("left", "number", "shown"),
    [
        (["frontend-0", "frontend-1", "frontend-10"], "1", ["frontend-1"]),
        (["frontend"], "0", ["frontend"]),
        (["frontend"], "1", []),
        (["frontend-0", "frontend-1"], "", ["frontend-0", "frontend-1"]),
    ],
)
def test_of_a_bus_that_has_ended_only_the_front_end_that_is_named_is_shown(
    tmp_path: Path, capsys: Capture, left: list[str], number: str, shown: list[str]
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in left:
        (folder / f"{name}.log").write_text(entry("T", "said") + "\n", encoding="utf-8")

    words = ["frontend", *([number] if number else [])]
    code = command.main(["logs", "--data", str(tmp_path), *words])

    assert code == (0 if shown else 3)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"T info {name}: said" for name in shown]


@pytest.mark.integration
def test_logs_are_followed(start: Start, data: Path) -> None:
    run = ready(start())
    path = Path(run["processes"][2]["log"])
    words = ["--data", str(data), "logs", "frontend", "--follow"]

    with subprocess.Popen(
        [sys.executable, "-m", "bendybus.cli", *words], stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        with path.open("a", encoding="utf-8") as file:
            file.write(entry("T1", "one") + "\n")
        first = following.stdout.readline()
        with path.open("a", encoding="utf-8") as file:
            file.write(entry("T2", "two") + "\n")
        second = following.stdout.readline()
        following.kill()

    assert (first, second) == ("T1 info frontend: one\n", "T2 info frontend: two\n")


BUS = json.dumps({"items": [{"metadata": {"name": "shop", "namespace": "web"}}]})


def test_logs_on_a_cluster_are_those_of_its_pods(kubectl: FakeKubectl, capsys: Capture) -> None:
    line = f"[pod/shop-frontend-x/server] {entry('T', 'm')}\n"
    kubectl.answers(get_busnamespaces={"out": BUS}, logs={"out": line})

    codes = [
        command.main(["--kube", "logs", "frontend", "--tail", "7"]),
        command.main(["--kube", "logs", "partition", "3", "-f", "-o", "json"]),
    ]

    shown = capsys.readouterr().out.splitlines()
    assert codes == [0, 0]
    assert shown[0] == "T info shop-frontend-x: m"
    assert json.loads(shown[1])["process"] == "shop-frontend-x"
    asked = [call["arguments"] for call in kubectl.calls() if "logs" in call["arguments"]]
    assert asked[0] == [
        *("--namespace=web", "logs"),
        "--selector=bendybus.io/bus=shop,bendybus.io/role=frontend",
        *("--prefix", "--max-log-requests=50", "--tail=7"),
    ]
    assert asked[1] == ["--namespace=web", "logs", "shop-partition-3", "--tail=100", "--follow"]


def test_what_kubectl_cannot_do_is_one_sentence(kubectl: FakeKubectl, capsys: Capture) -> None:
    missing = {"err": 'Error from server (NotFound): pods "x" not found', "code": 1}
    kubectl.answers(get_busnamespaces={"out": BUS}, logs=missing)

    code = command.main(["--kube", "logs", "partition", "99"])

    assert (code, capsys.readouterr().err) == (3, 'bendybus: pods "x" not found.\n')


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("logs", "all", "3"), "a number needs partition or frontend before it"),
        (("--connection-string", "Endpoint=sb://h", "logs"), "leads to no logs"),
        (("--kube", "logs", "frontend", "1"), "pods have no numbers"),
    ],
)
def test_logs_that_cannot_be_are_refused(
    kubectl: FakeKubectl, capsys: Capture, words: tuple[str, ...], said: str
) -> None:
    assert command.main([*words]) == 2
    assert said in capsys.readouterr().err
