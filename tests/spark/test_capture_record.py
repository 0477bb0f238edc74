"""The record of a capture: a batch that is repeated is finished as it was begun."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.jobs.capture import RECORD_FILE, LocalFolder, Record, Shape
from bendybus.spark.jobs.file_store import Layout

pytestmark = pytest.mark.requirement("R361")
SHAPE = Shape("orders", "lake", Layout("parquet", "zstd", "{partition}"), ("body",), "binary")
OTHER = Shape(
    "orders", "lake", Layout("jsonl", "none", "{partition}/{year}", "5e1"), ("subject",), "binary"
)


def checkpoint(folder: Path, query: str = "q-1") -> LocalFolder:
    (folder / "metadata").write_text(json.dumps({"id": query}))
    return LocalFolder(folder)


def test_a_repeat_is_written_as_the_batch_was_begun_and_the_next_one_as_options_say(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Record(checkpoint(tmp_path), "here").begin(7, SHAPE)

    again = Record(checkpoint(tmp_path), "here")

    assert again.begun == SHAPE
    assert again.begin(7, OTHER) == SHAPE
    assert "batch 7 is finished as it was begun: --format parquet" in caplog.text
    assert again.begin(8, OTHER) == OTHER
    assert Record(checkpoint(tmp_path), "here").begin(8, SHAPE) == OTHER


@pytest.mark.requirement("R446")
def test_a_repeat_keeps_the_case_of_the_entity_which_names_folders(tmp_path: Path) -> None:
    Record(checkpoint(tmp_path), "here").begin(7, SHAPE)

    again = Record(checkpoint(tmp_path), "here").begin(7, replace(SHAPE, path="ORDERS"))

    assert again.path == "orders"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (replace(SHAPE, out="sea"), "--out: batch 7 was begun with 'lake', and is not finished"),
        (
            replace(SHAPE, body="string"),
            "--option body: batch 7 was begun with 'binary', and is not",
        ),
    ],
)
def test_a_repeat_elsewhere_or_with_another_type_of_body_is_refused_by_name(
    tmp_path: Path, changed: Shape, sentence: str
) -> None:
    Record(checkpoint(tmp_path), "here").begin(7, SHAPE)

    with pytest.raises(OptionError, match=sentence):
        Record(checkpoint(tmp_path), "here").begin(7, changed)


def test_a_record_of_another_query_or_one_that_was_cut_off_is_none(tmp_path: Path) -> None:
    Record(checkpoint(tmp_path), "here").begin(7, SHAPE)

    assert Record(checkpoint(tmp_path, "q-2"), "here").begin(7, OTHER) == OTHER
    (tmp_path / RECORD_FILE).write_bytes((tmp_path / RECORD_FILE).read_bytes()[:20])
    assert Record(checkpoint(tmp_path, "q-2"), "here").begun is None


def test_a_batch_of_a_version_without_records_is_finished_as_options_say_which_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = Record(checkpoint(tmp_path), "here")

    assert record.begin(3, SHAPE) == SHAPE
    assert record.begin(4, SHAPE) == SHAPE

    assert len([each for each in caplog.messages if "kept no record" in each]) == 1


def test_a_record_of_a_later_version_is_refused(tmp_path: Path) -> None:
    checkpoint(tmp_path).write(RECORD_FILE, b'{"v": 2}')

    with pytest.raises(PipelineError, match="is of version 2, and this version of Bendybus reads"):
        Record(checkpoint(tmp_path), "here")
