"""`bendybus context …`: named buses, and which bus is meant when several things name one."""

import errno
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from bendybus.cli import __main__ as command
from bendybus.cli.bus import bus_choice
from bendybus.cli.bus.bus_choice import Choice, Context, Contexts
from bendybus.cli.bus.cluster import ClusterChoice
from bendybus.cli.errors import CliError, NotFound, UsageError
from tests.cli.fake_management import FakeManagement

pytestmark = pytest.mark.requirement("R371")
Capture = pytest.CaptureFixture[str]
PROD = "Endpoint=sb://prod.example:7480;SharedAccessKeyName=n;SharedAccessKey=secret"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv(bus_choice.VARIABLE, raising=False)
    return tmp_path


def run(*words: str) -> int:
    return command.main([*words])


def test_a_context_is_added_used_listed_and_removed(home: Path, capsys: Capture) -> None:
    file = home / "bendybus" / "contexts.json"

    codes = [
        run("context", "add", "prod", "--connection-string", PROD),
        run("context", "add", "shop", "--use", "--kube", "-n", "web", "--bus", "orders"),
    ]
    mode = file.stat().st_mode & 0o777
    capsys.readouterr()
    codes += [run("context", "list"), run("context", "list", "-o", "json")]
    listed = capsys.readouterr().out
    codes += [run("context", "use", "prod"), run("context", "remove", "prod")]

    assert codes == [0] * 6
    assert mode == 0o600
    assert "secret" not in listed
    lines = listed.splitlines()
    assert lines[1].split() == ["prod", "no", "prod.example:7480"]
    assert json.loads(lines[-1]) == {
        "name": "shop",
        "in_use": True,
        "bus": "cluster: context kubectl's current one, namespace web, bus orders",
    }
    assert bus_choice.read_contexts({"XDG_CONFIG_HOME": str(home)}).current == ""


@pytest.mark.parametrize(
    ("said", "words", "code"),
    [
        ("already exists. Remove it with bendybus context remove p.", ("add", "p"), 2),
        ("Context 'q' does not exist. bendybus context list shows", ("use", "q"), 3),
        ("Context 'q' does not exist.", ("remove", "q"), 3),
        ("a name has letters, digits", ("add", "no way"), 2),
        ("must have a NAME or --none", ("use",), 2),
    ],
)
def test_what_cannot_be_is_said(
    capsys: Capture, said: str, words: tuple[str, ...], code: int
) -> None:
    run("context", "add", "p", "--connection-string", PROD)
    capsys.readouterr()

    found = run("context", *words, *(["--connection-string", PROD] if words[0] == "add" else []))

    assert (found, said in capsys.readouterr().err) == (code, True)


def choice(home: Path, **given: str) -> Choice:
    environment = {"XDG_CONFIG_HOME": str(home)}
    if "variable" in given:
        environment[bus_choice.VARIABLE] = given["variable"]
    return Choice(given.get("option", ""), None, environment)


def test_the_command_line_comes_first_then_the_environment_then_the_context(home: Path) -> None:
    bus_choice.write_contexts(
        {"XDG_CONFIG_HOME": str(home)}, Contexts("prod", {"prod": Context(PROD, "/ca.crt")})
    )

    def string(**given: str) -> str:
        return bus_choice.connection_string(bus_choice.with_context(choice(home, **given)))

    assert string(option="a", variable="b") == "a"
    assert string(variable="b") == "b"
    assert string() == PROD
    assert bus_choice.with_context(choice(home)).ca_file == Path("/ca.crt")
    on_cluster = Choice("", None, choice(home).environment, cluster=ClusterChoice("c"))
    assert bus_choice.with_context(on_cluster) == on_cluster
    of_folder = Choice("", home, choice(home).environment)
    assert bus_choice.with_context(of_folder) == of_folder


def test_commands_about_this_machine_know_no_context(home: Path, capsys: Capture) -> None:
    bus_choice.write_contexts(
        {"XDG_CONFIG_HOME": str(home)}, Contexts("c", {"c": Context(kube=True)})
    )

    code = run("ps")

    assert code == 4
    assert "No bus runs in" in capsys.readouterr().err


def test_the_context_in_use_is_the_bus_of_commands(bus: FakeManagement, capsys: Capture) -> None:
    where = f"Endpoint=sb://{bus.address};UseDevelopmentEmulator=true"

    codes = [
        run("context", "add", "lab", "--use", "--connection-string", where),
        run("create", "queue", "orders"),
    ]

    assert codes == [0, 0]
    assert "create orders" in bus.calls


def test_a_broken_file_is_named_and_contexts_can_be_repaired(home: Path, capsys: Capture) -> None:
    file = home / "bendybus" / "contexts.json"
    file.parent.mkdir()
    file.write_text("[]", encoding="utf-8")

    with pytest.raises(CliError, match="is not a file of contexts"):
        bus_choice.read_contexts({"XDG_CONFIG_HOME": str(home)})
    assert run("get", "queues") == 1
    assert f"{file} is not a file of contexts." in capsys.readouterr().err


@pytest.mark.requirement("R443")
@pytest.mark.parametrize(
    "text",
    [
        '{"current": "a", "contexts": {"a": {"connection_string": 5}}}',
        '{"current": "a", "contexts": {"a": {"kube": true, "ca_file": 7}}}',
        '{"current": "a", "contexts": {"a": {"kube": "yes"}}}',
        '{"current": "a", "contexts": {"a": {"ca_file": "/ca.crt"}}}',
        '{"current": "gone", "contexts": {"a": {"kube": true}}}',
        '{"current": [], "contexts": {}}',
    ],
)
def test_a_context_that_names_no_bus_is_never_taken_for_the_local_one(
    home: Path, capsys: Capture, text: str
) -> None:
    file = home / "bendybus" / "contexts.json"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")

    codes = [run("context", "list"), run("get", "queues")]

    assert codes == [1, 1]
    assert capsys.readouterr().err.count(f"{file} is not a file of contexts.") == 2


@pytest.mark.requirement("R443")
def test_logs_say_that_it_is_the_context_that_leads_to_none(home: Path, capsys: Capture) -> None:
    bus_choice.write_contexts(
        {"XDG_CONFIG_HOME": str(home)}, Contexts("prod", {"prod": Context(PROD)})
    )

    code = run("logs")

    assert code == 2
    assert "logs: the context in use has a connection string" in capsys.readouterr().err


def test_contexts_are_values() -> None:
    one = Contexts().add("a", Context("key")).use("a")

    assert one.in_use() == Context("key")
    assert one.remove("a") == Contexts()
    assert "key" not in repr(Context("key"))
    with pytest.raises(NotFound):
        one.use("b")
    with pytest.raises(UsageError):
        one.add("a", Context())


def test_contexts_are_written_where_the_system_is_not_posix(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "pread", "fchmod"):
        monkeypatch.delattr(os, name)

    bus_choice.write_contexts(os.environ, Contexts().add("a", Context("Endpoint=sb://a:1;")))

    assert bus_choice.read_contexts(os.environ).named["a"].connection_string == "Endpoint=sb://a:1;"


@pytest.mark.requirement("R478")
def test_two_that_add_a_context_at_the_same_time_lose_none(home: Path) -> None:
    other = threading.Thread(target=run, args=("context", "add", "b", "--connection-string", PROD))

    def slowly(found: Contexts) -> Contexts:
        other.start()
        other.join(0.3)
        return found.add("a", Context(PROD))

    bus_choice.change_contexts(os.environ, slowly)
    other.join()

    assert {*bus_choice.read_contexts(os.environ).named} == {"a", "b"}


@pytest.mark.requirement("R478")
def test_a_file_that_another_process_changes_for_long_is_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    lock = home / "bendybus" / "contexts.lock"
    lock.parent.mkdir()
    monkeypatch.setattr(bus_choice, "WAIT_S", 0.05)

    with bus_choice.file_held(lock):
        code = run("context", "add", "a", "--connection-string", PROD)

    assert (code, f"{lock}: in use by another process." in capsys.readouterr().err) == (1, True)


class Msvcrt:
    """The locks of Windows: of a byte, by descriptor."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self) -> None:
        self.held = False

    def locking(self, descriptor: int, mode: int, length: int) -> None:
        os.fstat(descriptor)
        if mode == self.LK_NBLCK and self.held:
            raise PermissionError(errno.EACCES, "Permission denied")
        self.held = mode == self.LK_NBLCK


@pytest.mark.requirement("R478")
def test_the_lock_is_one_of_windows_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = Msvcrt()
    monkeypatch.setattr(bus_choice, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", cast(Any, system))

    with bus_choice.file_held(home / "lock"):
        assert system.held
        with pytest.raises(TimeoutError), bus_choice.file_held(home / "lock", 0.0):
            pass

    assert not system.held
