"""Names of captured files, and how they are published."""

from pathlib import Path

import pytest

from bendybus.spark.errors import OptionError
from bendybus.spark.jobs import capture
from bendybus.spark.jobs.capture import Capture
from bendybus.spark.jobs.file_store import Layout, LocalStore

pytestmark = pytest.mark.requirement("R299")
HOUR = 490_000
RANGE = f"ab-12:{(3 << 48) + 41}:{(3 << 48) + 90}"


def fill(store: LocalStore, path: str, text: str) -> bool:
    draft = store.draft(path)
    draft.file.write(text.encode())
    try:
        return draft.publish()[0]
    finally:
        draft.discard()


def files(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()
    }


def test_a_file_is_named_by_partition_hour_range_and_incarnation() -> None:
    found = Layout().path("orders", 3, HOUR, RANGE)

    assert found == "3/2025/11/24/16/000000000042-000000000090-ab-12.parquet"


def test_a_template_names_folders() -> None:
    layout = Layout("jsonl", "gzip", "{entity}/day={year}-{month}-{day}/{partition}")

    found = layout.path("orders/$DeadLetterQueue", 0, HOUR, RANGE)

    assert found == (
        "orders/DeadLetterQueue/day=2025-11-24/0/000000000042-000000000090-ab-12.jsonl.gz"
    )


@pytest.mark.parametrize(
    ("layout", "sentence"),
    [
        (Layout("csv"), r"--format: must be parquet or jsonl \(got 'csv'\)"),
        (Layout("jsonl", "zstd"), "--compression: must be none or gzip with jsonl"),
        (Layout("parquet", "gzip"), "--compression: must be zstd, snappy or none with parquet"),
        (Layout(folder="{minute}"), "--path-template: must be made of text and {entity}, "),
        (Layout(folder="{partition"), "--path-template: must be made of text and"),
        (Layout(folder="{year}"), "--path-template: must have {partition}"),
        (Layout(folder="../{partition}"), "stay below --out"),
        (Layout(folder="{partition}/_{year}"), "no folder may begin with _ or . as readers"),
        (Layout(folder=".lake/{partition}"), "readers pass over it"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layout: Layout, sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        layout.check()


@pytest.mark.parametrize(
    ("source", "layout", "sentence"),
    [
        ({"minPartitions": "4"}, Layout(), "option minPartitions: is not an option of capture"),
        ({"startingOffsets": "latest"}, Layout(), "option settle: trailing removes everything"),
        ({}, Layout("csv"), "--format: must be"),
        (
            {"queue": "a/_b"},
            Layout(folder="{entity}/{partition}"),
            "no folder may begin with _ or . as readers pass over it .* and so '_b'",
        ),
    ],
)
def test_a_capture_that_cannot_be_is_refused_before_it_starts(
    tmp_path: Path, source: dict[str, str], layout: Layout, sentence: str
) -> None:
    job = Capture({"queue": "orders", **source}, str(tmp_path), str(tmp_path), layout)

    with pytest.raises(OptionError, match=sentence):
        capture.start(None, job, {})


def test_a_published_file_is_never_replaced(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, "me")

    first = fill(store, "3/a.parquet", "whole")
    second = fill(store, "3/a.parquet", "less")

    assert (first, second) == (True, False)
    assert files(tmp_path) == {"3/a.parquet": "whole"}
    assert store.has("3/a.parquet")


def test_what_was_not_published_is_not_there_and_is_cleared_by_its_owner(tmp_path: Path) -> None:
    mine, other = LocalStore(tmp_path, "me"), LocalStore(tmp_path, "other")
    half, kept = mine.draft("a"), other.draft("b")
    half.file.write(b"half")

    LocalStore(tmp_path, "me").clear()

    assert not mine.has("a")
    assert [Path(name).parts[:2] for name in files(tmp_path)] == [("_temporary", "other")]
    half.discard()
    kept.discard()


def test_drafts_of_captures_with_checkpoints_of_one_name_are_told_apart() -> None:
    def owner(queue: str, port: int, key: str) -> str:
        string = f"Endpoint=sb://h:{port};SharedAccessKeyName=root;SharedAccessKey={key}"
        source = {"connectionString": string, "queue": queue}
        return capture._owner(Capture(source, "s3://lake/all", "/checkpoint"))

    mine = owner("orders", 1, "k")

    assert owner("orders", 1, "rotated") == mine
    assert len({mine, owner("returns", 1, "k"), owner("orders", 2, "k")}) == 3


def test_a_file_system_without_hard_links_replaces_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr("os.link", refuse)
    store = LocalStore(tmp_path, "me")

    assert fill(store, "a", "whole")
    assert not fill(store, "a", "less")
    assert files(tmp_path) == {"a": "whole"}
