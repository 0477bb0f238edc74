"""Status is written at a bounded rate, the urgent first, and each change once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from bendybus.operator.controllers.status_writer import StatusWriter
from bendybus.operator.kubernetes.api import ApiError
from bendybus.operator.kubernetes.names import ObjectKey
from tests.operator.cluster import eventually
from tests.operator.manifests import queue_body
from tests.operator.memory_api import MemoryKubernetesApi

Status = dict[str, Any]


def ready(reason: str, message: str = "") -> Status:
    status = "True" if reason == "Available" else "False"
    condition = {"type": "Ready", "status": status, "reason": reason, "message": message}
    return {"conditions": [condition]}


class Desk:
    """A writer, an API server, and queues q0, q1, …"""

    def __init__(self, *, patches_per_s: float = 1_000.0, queues: int = 20) -> None:
        self.api = MemoryKubernetesApi()
        self.api.put({"kind": "Namespace", "metadata": {"name": "shop"}})
        for number in range(queues):
            self.api.put(queue_body(f"q{number}"))
        self.writer = StatusWriter(self.api, patches_per_s=patches_per_s, retry_s=0.01)
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.writer.run())

    def put(
        self,
        number: int,
        status: Status,
        *,
        current: Status | None = None,
        urgent: bool = True,
        uid: str = "",
    ) -> None:
        name = f"q{number}"
        self.writer.put(
            "Queue",
            ObjectKey("shop", name),
            uid or f"{name}-1",
            status=status,
            current=current or {},
            urgent=urgent,
        )

    def patches(self) -> list[str]:
        return [name for verb, _, name in self.api.calls if verb == "apply-status"]

    def events(self) -> list[tuple[str, str, str]]:
        return [
            (body["involvedObject"]["name"], body["type"], body["reason"])
            for (kind, _, _), body in self.api.objects.items()
            if kind == "Event"
        ]

    async def idle(self) -> None:
        await eventually(lambda: not self.writer.waiting())
        # The last one is out of the line before it is written.
        await self.writer_turn()

    async def writer_turn(self) -> None:
        """Wait until the writer wrote something that was put now: a mark."""
        self.api.put(queue_body("mark"))
        mark = ready("Available", str(len(self.api.calls)))
        self.writer.put(
            "Queue", ObjectKey("shop", "mark"), "mark-1", status=mark, current=mark | {"x": 1},
            urgent=False,
        )  # fmt: skip
        await eventually(lambda: self.api.one("Queue", "mark").get("status") == mark)

    async def end(self) -> None:
        if self.task is not None:
            assert not self.task.done()
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


@pytest_asyncio.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    yield made
    await made.end()


async def test_the_urgent_is_written_first(desk: Desk) -> None:
    for number in range(10):
        desk.put(number, ready("Available"), urgent=False)
    desk.put(10, ready("NameTaken"))
    desk.put(5, ready("NameTaken"))

    desk.start()
    await desk.idle()

    assert desk.patches()[:3] == ["q10", "q5", "q0"]
    assert sorted(desk.patches()[:11]) == sorted(f"q{n}" for n in range(11))


async def test_what_changes_many_times_before_its_turn_is_written_once(desk: Desk) -> None:
    for number in range(100):
        desk.put(0, ready("Available", str(number)))

    desk.start()
    await desk.idle()

    assert desk.patches().count("q0") == 1
    assert desk.api.one("Queue", "q0")["status"]["conditions"][0]["message"] == "99"


async def test_what_the_object_has_already_is_not_written(desk: Desk) -> None:
    desk.put(0, ready("Available"), current=ready("Available"))
    desk.put(1, ready("NameTaken"))
    desk.put(1, ready("Available"), current=ready("Available"))

    desk.start()
    await desk.idle()

    assert set(desk.patches()) == {"mark"}


async def test_what_was_just_written_is_not_written_again_before_its_event(desk: Desk) -> None:
    desk.start()
    desk.put(0, ready("NameTaken"))
    await desk.idle()

    # The world has not seen the status yet, and says that it is empty.
    desk.put(0, ready("NameTaken"))
    desk.put(0, ready("NameTaken"), urgent=False)
    await desk.idle()

    assert desk.patches().count("q0") == 1
    assert desk.events().count(("q0", "Warning", "NameTaken")) == 1


async def test_an_event_is_posted_when_the_reason_changes_and_only_then(desk: Desk) -> None:
    desk.start()
    for status in (
        ready("Progressing"),
        ready("Available", "one"),
        ready("Available", "two"),
        ready("PartitionUnavailable"),
    ):
        desk.put(0, status, current=desk.api.one("Queue", "q0").get("status"))
        await desk.idle()

    assert [event for event in desk.events() if event[0] == "q0"] == [
        ("q0", "Warning", "Progressing"),
        ("q0", "Normal", "Available"),
        ("q0", "Warning", "PartitionUnavailable"),
    ]


async def test_an_object_that_was_made_anew_does_not_get_its_predecessors_status(
    desk: Desk,
) -> None:
    desk.put(0, ready("Available"), uid="earlier")
    desk.put(1, ready("Available"))

    desk.start()
    await desk.idle()

    assert "status" not in desk.api.one("Queue", "q0")
    assert "status" in desk.api.one("Queue", "q1")
    assert [event[0] for event in desk.events()] == ["q1"]


async def test_an_object_that_is_gone_is_forgotten(desk: Desk) -> None:
    desk.api.remove("Queue", "shop", "q0")
    desk.put(0, ready("Available"))

    desk.start()
    await desk.idle()

    assert desk.patches().count("q0") == 1
    assert desk.writer.failed == 1


async def test_what_could_not_be_written_is_tried_until_it_can(desk: Desk) -> None:
    desk.api.refusals["apply-status", "Queue"] = ApiError(0, "away")
    desk.put(0, ready("NameTaken"), current=ready("NameTaken", "as before"))
    desk.start()
    await eventually(lambda: desk.patches().count("q0") > 2)

    desk.api.refusals.clear()
    await desk.idle()

    assert desk.api.one("Queue", "q0")["status"] == ready("NameTaken")
    # The reason is the one that it had: no event.
    assert desk.events() == []


async def test_what_is_refused_for_good_holds_up_nobody(desk: Desk) -> None:
    desk.api.refusals["apply-status", "Queue"] = ApiError(422, "no such field")
    desk.put(0, ready("NameTaken"))
    desk.start()
    await eventually(lambda: desk.writer.failed == 1)

    desk.api.refusals.clear()
    await desk.idle()

    assert desk.patches().count("q0") == 1


async def test_an_event_that_cannot_be_posted_is_no_harm(desk: Desk) -> None:
    desk.api.refusals["create", "Event"] = ApiError(403, "no")
    desk.put(0, ready("NameTaken"))

    desk.start()
    await desk.idle()

    assert desk.api.one("Queue", "q0")["status"] == ready("NameTaken")


@pytest.mark.parametrize("rate", [50.0])
async def test_the_rate_is_bounded(rate: float) -> None:
    desk = Desk(patches_per_s=rate)
    loop = asyncio.get_running_loop()
    for number in range(10):
        desk.put(number, ready("Available"))

    began = loop.time()
    desk.start()
    await eventually(lambda: len(desk.patches()) == 10)
    took_s = loop.time() - began
    await desk.end()

    assert took_s >= 9 / rate * 0.9


async def test_a_writer_that_stands_by_forgets_what_waits(desk: Desk) -> None:
    desk.put(0, ready("Available"))
    desk.writer.clear()

    assert desk.writer.waiting() == 0


@pytest.mark.requirement("R383")
async def test_the_manifests_of_one_namespace_do_not_wait_for_all_of_another(desk: Desk) -> None:
    for name in ("guest", "other"):
        desk.api.put({"kind": "Namespace", "metadata": {"name": name}})
        desk.api.put(queue_body("own", namespace=name))
    for number in range(200):
        desk.put(number % 20, ready("NameTaken", str(number)))
    for name in ("guest", "other"):
        key = ObjectKey(name, "own")
        desk.writer.put("Queue", key, "own-1", status=ready("NameTaken"), current={}, urgent=True)

    desk.start()
    await desk.idle()

    assert desk.patches()[1:3] == ["own", "own"]
    assert set(desk.patches()) == {f"q{number}" for number in range(20)} | {"own", "mark"}


@pytest.mark.requirement("R383")
async def test_what_is_not_urgent_is_written_while_urgent_changes_never_end(desk: Desk) -> None:
    for number in range(20):
        desk.put(number, ready("Available"), urgent=number != 19)

    desk.start()
    await desk.idle()

    assert desk.patches().index("q19") == 9


@pytest.mark.requirement("R385")
async def test_an_event_of_the_same_reason_is_counted_and_not_repeated(desk: Desk) -> None:
    desk.start()
    for _ in range(3):
        for reason in ("PartitionUnavailable", "Available"):
            desk.put(0, ready(reason), current=desk.api.one("Queue", "q0").get("status"))
            await desk.idle()

    assert sorted(event for event in desk.events() if event[0] == "q0") == [
        ("q0", "Normal", "Available"),
        ("q0", "Warning", "PartitionUnavailable"),
    ]
    counted = [body["count"] for key, body in desk.api.objects.items() if key[0] == "Event"]
    assert sorted(counted)[-2:] == [3, 3]


@pytest.mark.requirement("R385")
async def test_an_event_that_has_expired_is_posted_again(desk: Desk) -> None:
    seen: list[tuple[str, int]] = []
    desk.start()
    for reason in ("PartitionUnavailable", "Available", "PartitionUnavailable"):
        desk.put(0, ready(reason), current=desk.api.one("Queue", "q0").get("status"))
        await desk.idle()
        for key, body in list(desk.api.objects.items()):
            if key[0] == "Event":
                desk.api.remove(*key)
                if body["involvedObject"]["name"] == "q0":
                    seen.append((body["reason"], body["count"]))

    assert seen == [("PartitionUnavailable", 1), ("Available", 1), ("PartitionUnavailable", 1)]


@pytest.mark.requirement("R473")
@pytest.mark.parametrize("arrives", [True, False])
async def test_what_is_taken_back_while_it_is_being_written_does_not_stay(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()
    apply = desk.api.apply

    async def slow(body: Status, **options: Any) -> Status:
        if not begun.is_set():
            begun.set()
            await goes_on.wait()
            if not arrives:
                raise ApiError(503, "not now")
        return await apply(body, **options)

    monkeypatch.setattr(desk.api, "apply", slow)
    desk.start()
    desk.put(0, ready("PartitionUnavailable"), current=ready("Available"))
    await begun.wait()

    # The partition is back, and the object still has the status of before.
    desk.put(0, ready("Available"), current=ready("Available"))
    goes_on.set()
    await desk.idle()

    status = desk.api.one("Queue", "q0")["status"]
    assert status["conditions"][0]["reason"] == "Available"


@pytest.mark.requirement("R482")
async def test_what_failed_as_another_operator_took_over_is_not_written_any_more(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()
    apply = desk.api.apply

    async def slow(body: Status, **options: Any) -> Status:
        if not begun.is_set():
            begun.set()
            await goes_on.wait()
            raise ApiError(503, "not now")
        return await apply(body, **options)

    monkeypatch.setattr(desk.api, "apply", slow)
    desk.start()
    desk.put(0, ready("PartitionUnavailable"))
    await begun.wait()

    desk.writer.clear()
    goes_on.set()
    await desk.idle()

    assert "status" not in desk.api.one("Queue", "q0")
