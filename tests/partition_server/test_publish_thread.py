"""Frames for topics on a partition's thread: answered once, also when its store fails meanwhile."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state import budget
from bendybus.partition_server.state.answers import Appended, Failed
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, CommitEntity, EntityRef
from bendybus.partition_server.store.errors import StoreFailed, StoreFull
from tests.partition_server.publishing import head
from tests.partition_server.running_partition import Runner

COUNT = 1_000


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """Return a partition that does one step a turn."""
    monkeypatch.setattr(budget, "TURN_MS", 0)
    runner = Runner(tmp_path)
    yield runner
    runner.thread.stop()


def make(runner: Runner) -> EntityRef:
    """Make a topic with a subscription."""
    create = EntityAction.CREATE
    kinds = {"news": EntityKind.TOPIC, "news/Subscriptions/a": EntityKind.SUBSCRIPTION}
    for name, kind in kinds.items():
        runner.ask(CommitEntity("t", create, name, Origin.CLIENT, uid=f"uid-{name}", kind=kind))
    topic = runner.ask(
        CommitEntity(
            "t",
            EntityAction.UPDATE,
            "news",
            Origin.CLIENT,
            {"user_metadata": "x"},
            kind=EntityKind.TOPIC,
        )
    )
    assert isinstance(topic, Entity)
    return EntityRef(topic.uid, topic.generation)


def frame(ref: EntityRef, name: str, count: int = COUNT, size: int = 10) -> Append:
    """Return a frame of single messages."""
    batch = Batch([b"b" * size] * count, heads=[head()] * count, formats=[1] * count)
    return Append(name, ref, batch, [1] * count)


def fails_at(runner: Runner, monkeypatch: pytest.MonkeyPatch, number: int, error: Any) -> None:
    """Let the commit of this number fail."""
    commit, left = runner.store.commit, [number]

    def failing(changes: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise error
        commit(changes)

    monkeypatch.setattr(runner.store, "commit", failing)


@pytest.mark.requirement("R183")
def test_frames_go_on_by_themselves(running: Runner) -> None:
    ref = make(running)

    running.thread.submit(frame(ref, "first", 100))
    running.thread.submit(frame(ref, "second", 1))

    answers = [running.next_answer() for _ in range(2)]
    assert [to for to, _ in answers] == ["first", "second"]
    assert [len(value.numbers) for _, value in answers] == [100, 1]


@pytest.mark.requirement("R183")
def test_a_store_that_fails_makes_the_outcome_unknown_once(
    running: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = make(running)
    fails_at(running, monkeypatch, 5, StoreFailed("gone"))

    running.thread.submit(frame(ref, "first"))
    running.thread.submit(frame(ref, "second", 1))
    answers = dict([running.next_answer() for _ in range(2)])

    assert isinstance(answers["first"], Failed)
    assert isinstance(answers["first"].error, errors.OutcomeUnknown)
    assert isinstance(answers["second"], Failed)
    assert running.answers.empty()


@pytest.mark.requirement("R183")
def test_a_disk_that_is_full_refuses_the_rest_once(
    running: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = make(running)
    fails_at(running, monkeypatch, 5, StoreFull("full"))

    running.thread.submit(frame(ref, "first"))
    answer = running.next_answer()

    assert answer.to == "first"
    assert isinstance(answer.value, Appended)
    units = [unit for unit, _ in answer.value.failures]
    assert units == list(range(units[0], COUNT))
    assert units[0] > 0
    assert {type(error) for _, error in answer.value.failures} == {errors.PartitionUnavailable}
    assert running.answers.empty()
