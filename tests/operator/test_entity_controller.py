"""When entities are due, and that a status is never that of another manifest."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain.directory import Directory
from bendybus.domain.entity import Fingerprint
from bendybus.domain.limits import Tier
from bendybus.operator.controllers.entity_controller import EntityController, EntityReconciler
from bendybus.operator.decisions.conditions import Readiness
from bendybus.operator.decisions.manifests import ManifestCache
from bendybus.operator.decisions.reasons import Reason
from tests.operator.manifests import BUS, entry, queue, subscription, topic

AVAILABLE = Readiness(True, Reason.AVAILABLE, "it is there.")


class Reconciler(EntityReconciler):
    """Finds every entity Available, when it is let."""

    def __init__(self) -> None:
        self.let, self.asked = asyncio.Event(), asyncio.Event()
        self.let.set()

    async def reconcile(self, *_: Any) -> Readiness:
        self.asked.set()
        await self.let.wait()
        return AVAILABLE


class Writer:
    """Notes whose status is put."""

    def __init__(self) -> None:
        self.put_for: list[str] = []
        self.generations: list[int] = []

    def put(self, kind: str, key: Any, uid: str, *, status: Any, **_: Any) -> None:
        self.put_for.append(uid)
        ready = status["conditions"][0]
        assert ready["observedGeneration"] == status["observedGeneration"]
        self.generations.append(status["observedGeneration"])


def controller(reconciler: Reconciler) -> tuple[EntityController, ManifestCache, Writer]:
    cache, writer = ManifestCache(), Writer()
    made = EntityController(BUS, cache, reconciler, writer)  # type: ignore[arg-type]
    return made, cache, writer


@pytest.mark.requirement("R134")
async def test_a_manifest_made_again_has_no_status_before_it_is_reconciled() -> None:
    entities, cache, writer = controller(Reconciler())
    cache.put_entity(queue(uid="1"))
    entities.enqueue_all()
    await entities.reconcile(None, paused=False)
    assert writer.put_for == ["1"]

    cache.put_entity(queue(uid="2"))
    entities.show_counts(["paid"], None)

    assert writer.put_for == ["1"], "the former manifest was Available, not this one"


@pytest.mark.requirement("R380")
async def test_a_status_claims_only_the_generation_that_was_reconciled() -> None:
    reconciler = Reconciler()
    entities, cache, writer = controller(reconciler)
    cache.put_entity(replace(queue(uid="1"), generation=1))
    entities.enqueue_all()
    reconciler.let.clear()
    running = asyncio.create_task(entities.reconcile(None, paused=False))
    await reconciler.asked.wait()

    cache.put_entity(replace(queue(uid="1"), generation=2))
    reconciler.let.set()
    await running
    # Also where the counts are shown before the change is reconciled.
    entities.show_counts(["paid"], None)
    assert writer.generations == [1, 1]

    entities.enqueue_all()
    await entities.reconcile(None, paused=False)
    assert writer.generations == [1, 1, 2]


@pytest.mark.requirement("R134")
async def test_a_manifest_that_comes_during_the_reconciliation_of_another_has_no_status() -> None:
    reconciler = Reconciler()
    entities, cache, writer = controller(reconciler)
    cache.put_entity(queue(uid="1"))
    entities.enqueue_all()
    reconciler.let.clear()
    running = asyncio.create_task(entities.reconcile(None, paused=False))
    await reconciler.asked.wait()

    cache.put_entity(queue(uid="2"))
    reconciler.let.set()
    await running

    assert writer.put_for == []


async def test_a_topic_makes_its_subscriptions_due_when_it_comes_and_not_with_each_change() -> None:
    entities, cache, _ = controller(Reconciler())
    for each in (subscription("a"), subscription("b"), subscription("c", topicName="other")):
        cache.put_entity(each)
    directory = Directory()
    header = Fingerprint("orders", "u", Tier.PREMIUM, 2, 0)
    due: list[int] = []

    for generation, orphaned in ((1, False), (2, False), (3, True), (4, False)):
        made = entry(topic(), generation=generation, orphaned=orphaned)
        directory.update(0, header, [made], snapshot=False)
        entities._due.clear()
        entities.enqueue_entities(["sales"], directory)
        due.append(len(entities._due))

    assert due == [2, 0, 2, 2]


async def test_subscriptions_are_reconciled_after_topics() -> None:
    entities, cache, writer = controller(Reconciler())
    for each in (subscription("a"), topic(), subscription("b"), queue()):
        cache.put_entity(each)

    entities.enqueue_all()
    await entities.reconcile(None, paused=False)

    assert sorted(writer.put_for[:2]) == ["paid-1", "sales-1"]


@pytest.mark.requirement("R482")
async def test_news_of_a_destination_that_come_during_the_decision_are_looked_at_afterwards() -> (
    None
):
    """The refusal may come after them, and they come once."""
    reconciler = Reconciler()
    entities, cache, _ = controller(reconciler)
    cache.put_entity(queue("a", forwardTo="b"))
    entities.enqueue_all()
    await entities.reconcile(None, paused=False)
    entities.enqueue_all()
    reconciler.let.clear()
    reconciler.asked.clear()
    running = asyncio.create_task(entities.reconcile(None, paused=False))
    await reconciler.asked.wait()

    directory = Directory()
    header = Fingerprint("orders", "u", Tier.PREMIUM, 2, 0)
    directory.update(0, header, [entry(queue("b"))], snapshot=False)
    entities.enqueue_entities(["b"], directory)
    reconciler.let.set()
    await running

    assert entities.next_due() == 0.0
