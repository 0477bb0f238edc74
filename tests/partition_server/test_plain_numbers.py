"""Both forms of sequence numbers of plain entities, in a partition that is not the first."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bendybus.domain.disposition import Disposition as D
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.partition_server.service import conversions
from bendybus.partition_server.state.answers import Failed
from bendybus.partition_server.state.commands import ApplyEntity, Peek, ReserveNumbers
from bendybus.partition_server.store import file_format
from bendybus.partition_server.store.errors import FileRefused
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests import sequence_numbers
from tests.partition_server import draining
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.test_store_command import lines_of, run

HOME = 3
PLAIN = Entity(
    "orders", "uid-orders", 1, Origin.CLIENT, QueueDescription(), 1, HOME, 0, 0, plain_numbers=True
)
BEFORE = replace(PLAIN, plain_numbers=False)
FORMS = pytest.mark.parametrize(
    ("entity", "base"),
    [(PLAIN, 0), (BEFORE, sequence_numbers.of(HOME, 0))],
    ids=["plain", "before"],
)
pytestmark = pytest.mark.requirement("R649")


def made(make_store: MakeStore, entity: Entity) -> Driver:
    """Return a partition with the entity."""
    driver = Driver(make_store(fingerprint(HOME)))
    driver.run(ApplyEntity("t", [entity]))
    return driver


@FORMS
def test_every_answer_has_numbers_of_the_form(
    make_store: MakeStore, entity: Entity, base: int
) -> None:
    driver = made(make_store, entity)

    assert list(driver.send(b"a", b"b").numbers) == [base + 1, base + 2]
    [reserved] = driver.run(ReserveNumbers("t", driver.ref(), 1))
    assert reserved.first == base + 3
    [peeked] = driver.run(Peek("t", driver.ref(), 0, 10, 1 << 20))
    assert peeked.next_number == base + 3
    shown = conversions.delivery_to_proto(peeked.delivery, partition=HOME)
    assert (shown.partition, list(shown.sequence_numbers)) == (HOME, [base + 1, base + 2])
    [locked] = driver.reserve(1)
    assert conversions.delivery_to_proto(locked.delivery, partition=HOME).sequence_numbers == [
        base + 1
    ]
    read = draining.range_of(driver)
    assert (read.lost, read.first, read.tail) == (base, base + 1, base + 3)
    page = draining.page(driver)
    assert (page.next_after, page.lost, page.tail) == (base + 3, base, base + 3)
    assert draining.number_at(driver, driver.wall_ms + 1).after == base + 2
    assert draining.number_at(driver, 0).after == base


@FORMS
def test_a_dead_letter_keeps_the_number_that_it_had(
    make_store: MakeStore, entity: Entity, base: int
) -> None:
    driver = made(make_store, entity)
    driver.send(b"a", b"b")
    [_, (_, token)] = driver.receive(2)

    driver.settle(D.DEAD_LETTER, token)

    [dead] = driver.peek(dead_letter=True)
    assert dead.enqueued_sequence_number == base + 2


@FORMS
def test_an_entity_keeps_its_form_over_restarts_and_changes(
    make_store: MakeStore, entity: Entity, base: int
) -> None:
    driver = made(make_store, entity)
    driver.send(b"a")
    driver.run(ApplyEntity("t", [replace(entity, generation=2, updated_at_ms=5)]))

    driver.restart()

    assert list(driver.send(b"b").numbers) == [base + 2]


@FORMS
def test_an_export_has_the_numbers_that_receivers_see(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entity: Entity, base: int
) -> None:
    store = SqliteStore(tmp_path, fingerprint(HOME))
    driver = Driver(store)
    driver.run(ApplyEntity("t", [entity]))
    driver.send(b"a")
    store.close()

    assert run("export", store.path) == 0

    [line] = lines_of(capsys)
    assert line["sequence_number"] == base + 1


def test_a_file_with_plain_numbers_is_refused_by_programs_that_do_not_know_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path, fingerprint(HOME))
    Driver(store).run(ApplyEntity("t", [PLAIN]))
    store.close()
    monkeypatch.setattr(file_format, "ENTRY_VERSION", file_format.PLAIN_NUMBERS_VERSION - 1)

    with pytest.raises(FileRefused, match=r"entries of the catalogue of version 6; .* up to 5"):
        SqliteStore(tmp_path, fingerprint(HOME)).open()


def test_the_entry_of_an_entity_of_the_form_before_says_nothing_of_numbers() -> None:
    entry: dict[str, Any] = json.loads(file_format.entity_to_json(BEFORE))

    assert "plain_numbers" not in entry
    assert file_format.entity_from_json(file_format.entity_to_json(PLAIN)) == PLAIN


def test_an_entry_with_another_form_is_refused_and_changes_nothing(make_store: MakeStore) -> None:
    driver = made(make_store, BEFORE)
    driver.send(b"a")

    [refused] = driver.run(ApplyEntity("t", [replace(PLAIN, generation=2)]))

    assert isinstance(refused, Failed)
    assert "have another form in the file of partition 3" in str(refused.error)
    driver.restart()
    assert list(driver.send(b"b").numbers) == [sequence_numbers.of(HOME, 2)]


def test_an_export_has_them_also_when_the_entity_is_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SqliteStore(tmp_path, fingerprint(HOME))
    driver = Driver(store)
    driver.run(ApplyEntity("t", [PLAIN]))
    driver.send(b"a")
    driver.run(ApplyEntity("t", [replace(PLAIN, deleted=True, generation=2)]))
    store.close()

    assert run("export", store.path) == 0

    assert [line["sequence_number"] for line in lines_of(capsys)] == [1]
