"""`store inspect|check|export` on real files: in use, left by a killed process, damaged."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.partition_server import __main__ as program
from bendybus.partition_server import arguments
from bendybus.partition_server.offline import store_command
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import Driver

NOBODY = 65_534

WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from bendybus.domain.entity_settings import QueueDescription
    from bendybus.partition_server.store.sqlite_store import SqliteStore
    from tests.partition_server.driver import Driver, fingerprint

    driver = Driver(SqliteStore(Path(sys.argv[1]), fingerprint(1)))
    driver.put(QueueDescription(enable_partitioning=True))
    for n in range(1_000_000):
        driver.send(*[b"x" * 100] * 5, groups=(5,))
        if n == 20:
            print("writing", flush=True)
    """
)


def run(action: str, file: Path, *options: str) -> int:
    """Run the program's own way to the command."""
    return store_command.run(arguments.parser().parse_args(["store", action, str(file), *options]))


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# Inspect


def test_inspect_shows_whose_file_it_is_and_what_every_queue_holds(
    busy: Driver, store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", store.path, "--json") == 0

    [found] = lines_of(capsys)
    assert found["header"]["namespace_uid"] == "ns-1"
    assert [entity["name"] for entity in found["entities"]] == ["orders"]
    main, dead = found["queues"]
    assert (main["queue"], main["active"], main["deferred"], main["scheduled"]) == (
        ("orders", 3, 1, 1)
    )
    assert (dead["queue"], dead["active"]) == ("orders/$DeadLetterQueue", 1)


def test_inspect_prints_a_table_for_people(
    busy: Driver, store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", store.path) == 0

    text = capsys.readouterr().out
    assert "partition 0 of 4" in text
    assert "format " in text.splitlines()[2]
    assert "incarnation " in text.splitlines()[2]
    assert "orders/$DeadLetterQueue" in text


def test_nothing_is_written_beside_the_file_and_no_lock_is_taken(
    busy: Driver, store: SqliteStore
) -> None:
    def seen() -> dict[str, tuple[int, int]]:
        folder = store.path.parent
        return {p.name: (p.stat().st_size, p.stat().st_mtime_ns) for p in folder.iterdir()}

    before = seen()

    assert run("check", store.path) == 0

    assert seen() == before
    busy.send(b"", message_ids=["still"])


def test_a_file_that_was_closed_is_read_as_it_lies(busy: Driver, store: SqliteStore) -> None:
    store.checkpoint()
    store.close()
    assert not Path(f"{store.path}-wal").exists()

    assert run("check", store.path) == 0

    assert not Path(f"{store.path}-wal").exists()


def test_a_file_is_consistent_while_another_process_writes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    file = tmp_path / "partition-01.db"
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"

        assert [run("check", file) for _ in range(5)] == [0] * 5
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    # Killed: the log still holds what was committed last.
    assert Path(f"{file}-wal").stat().st_size
    assert run("check", file) == 0
    capsys.readouterr()

    assert run("export", file) == 0

    numbers = [line["sequence_number"] for line in lines_of(capsys)]
    assert numbers == list(range((1 << 48) + 1, (1 << 48) + 1 + len(numbers)))
    assert len(numbers) >= 100


def test_a_backup_of_a_file_in_use_is_one_sound_file(
    busy: Driver, store: SqliteStore, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "backup.db"

    assert run("copy", store.path, str(target)) == 0
    said = capsys.readouterr().out
    assert run("copy", store.path, str(target)) == 1
    refused = capsys.readouterr().err
    assert run("check", target) == 0

    assert said == f"{target}: {target.stat().st_size} bytes, checked\n"
    assert "already exists. Name a new file" in refused
    assert not list(tmp_path.glob("backup.db-*"))
    assert not list(tmp_path.glob("*.part"))


def test_a_copied_file_with_its_log_alone_is_read(
    busy: Driver, store: SqliteStore, tmp_path: Path
) -> None:
    folder = tmp_path / "copied"
    folder.mkdir()
    for end in ("", "-wal"):
        (folder / f"p.db{end}").write_bytes(Path(f"{store.path}{end}").read_bytes())

    assert run("check", folder / "p.db") == 0


# What is no partition's file


def make(path: Path, *statements: str) -> Path:
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()
    return path


def test_a_file_that_is_not_there_is_said_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", tmp_path / "none.db") == 1
    assert "does not exist" in capsys.readouterr().err


def test_files_of_others_are_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.db").write_text("hello, this is no database at all")
    foreign = make(tmp_path / "foreign.db", "CREATE TABLE t (x)")
    later = make(
        tmp_path / "later.db",
        "PRAGMA application_id = 1111838276",
        "PRAGMA user_version = 99",
        "CREATE TABLE t (x)",
    )

    codes = [run("check", file) for file in (tmp_path / "text.db", tmp_path, foreign, later)]

    said = capsys.readouterr().err.splitlines()
    assert codes == [1] * 4
    for line, words in zip(
        said, ("not an SQLite file", "is not a file", "another program", "format 99"), strict=True
    ):
        assert words in line


def test_no_room_for_the_copy_is_said_and_leaves_nothing_behind(
    busy: Driver, store: SqliteStore, tmp_path: Path
) -> None:
    busy.send(*[b"x" * 1_000] * 200, groups=(200,))
    place = tmp_path / "place"
    place.mkdir()
    command = (
        f"ulimit -f 50; {sys.executable} -m bendybus.partition_server store check {store.path}"
    )

    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert "copied" in done.stderr or "no room for a copy" in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(place.iterdir()) == []


@contextlib.contextmanager
def not_as_root() -> Iterator[None]:
    """Be nobody for a while, if this is root, who may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("closed", ["file", "folder"])
@pytest.mark.parametrize("action", ["inspect", "copy"])
def test_a_file_that_may_not_be_read_is_said_to_be(
    busy: Driver, store: SqliteStore, capsys: pytest.CaptureFixture[str], closed: str, action: str
) -> None:
    options = ["-"] if action == "copy" else []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "data"
        place.mkdir()
        file = place / store.path.name
        file.write_bytes(store.path.read_bytes())
        Path(folder).chmod(0o755)
        (file if closed == "file" else place).chmod(0)
        with not_as_root():
            code = run(action, file, *options)
        place.chmod(0o755)

    said = capsys.readouterr()
    assert code == 1
    assert "cannot be read" in said.err
    assert len(said.err.splitlines()) == 1
    assert said.out == ""


def test_the_program_starts_it(
    busy: Driver,
    store: SqliteStore,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["server", "store", "check", str(store.path)])

    assert program.main() == 0
    assert "all fine" in capsys.readouterr().out


def test_the_command_line_finds_the_file_by_its_index(busy: Driver, store: SqliteStore) -> None:
    folder = str(store.path.parent)
    command = [sys.executable, "-m", "bendybus.cli", "--data", folder, "store", "inspect", "0"]

    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["header"]["partition_index"] == 0
