"""Sends of many connections go to a partition together, and each is answered by itself."""

import asyncio
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core import repeated_sends
from bendybus.frontend.core.quota.bounds import SEND_PART_BYTES, UNBOUNDED, Bounds
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.send import SendOutcome, SendRequest
from bendybus.frontend.core.send_lines import REQUESTS_MAX
from bendybus.frontend.core.shared_sends import BYTES_MAX, MESSAGES_MAX
from bendybus.frontend.upstreams.upstream import now_ms
from bendybus.v1 import message_pb2
from tests.frontend.entities import queue
from tests.frontend.shared_bus import FrontEnd, LaterLoop

pytestmark = pytest.mark.requirement("R639")
FULL = errors.QuotaExceeded("full")
UNKNOWN = errors.OutcomeUnknown("who knows")


async def read() -> None:
    """Let the loop come to the end of an iteration."""
    await asyncio.sleep(0)


async def test_what_clients_send_at_the_same_time_is_one_frame_and_each_gets_its_numbers() -> None:
    bus = FrontEnd()

    sent = [bus.send("a", "a1"), bus.send("b", "b1", "b2"), bus.send("c", "c1")]
    assert bus.frames == []
    await read()
    bus.answer(1)

    assert bus.bodies == [["a1", "b1", "b2", "c1"]]
    assert list(bus.frames[0].group_sizes) == [1, 1, 1, 1]
    assert [each.numbers for each in sent] == [[1], [2, 3], [4]]


async def test_what_comes_while_a_frame_is_under_way_goes_with_the_next() -> None:
    bus = FrontEnd()
    bus.send("a", "a1")
    await read()
    bus.send("b", "b1")
    await read()
    bus.send("c", "c1")
    await read()
    assert bus.bodies == [["a1"]]

    bus.answer(1)
    await read()

    assert bus.bodies == [["a1"], ["b1", "c1"]]
    assert bus.shared._lines["uid-plain"][2].waiting.is_idle is False
    bus.answer(2)
    assert bus.shared._lines["uid-plain"][2].waiting.is_idle
    assert bus.sends._room.held == 0


async def test_one_client_s_failure_is_not_that_of_another() -> None:
    bus = FrontEnd()
    sent = [bus.send("a", "a1", "a2"), bus.send("b", "b1"), bus.send("c", "c1")]
    await read()

    bus.answer(1, {1: FULL, 2: FULL})

    [first] = sent[0].results
    assert isinstance(first, SendOutcome)
    assert (dict(first.failures), sent[1].error, sent[2].numbers) == ({1: FULL}, FULL, [4])


async def test_entities_and_keys_of_other_partitions_have_other_lines() -> None:
    bus = FrontEnd()
    for key in ("k1", "k2", "k3", "k4", "k5"):
        for client in "ab":
            bus.send(client, key, to="parted", partition_keys=[key])
    bus.send("a", "other", to="other", partition_keys=["k1"])
    await read()

    expected = [frame for frame in bus.frames if frame.entity.uid == "uid-parted"]
    assert len(expected) == len({frame.partition for frame in expected}) > 1
    assert sum(len(frame.batch.messages) for frame in expected) == 10
    assert ["other"] in bus.bodies


async def test_a_partition_without_an_answer_holds_up_only_what_is_bound_for_it() -> None:
    bus = FrontEnd()
    bus.send("a", "stuck", to="parted", partition_keys=["k1"])
    await read()
    [stuck] = bus.frames
    stored = 0
    for number in range(50):
        bus.send("b", str(number), to="parted")
        await read()
        last = bus.frames[-1]
        assert last is not stuck
        if last.partition != stuck.partition:
            bus.answer(last.frame_id)
            stored += 1
    assert stored > 10


async def test_a_policy_with_many_connections_leaves_others_a_place_in_the_next_frame() -> None:
    bus = FrontEnd()
    for number in range(200):
        bus.send(f"many-{number}", "many", policy="theirs")
    bus.send("one", "one", policy="mine")
    await read()

    assert "one" in bus.bodies[0]
    assert len(bus.bodies[0]) == REQUESTS_MAX


async def test_columns_that_one_batch_has_and_another_lacks_are_filled() -> None:
    bus = FrontEnd()
    bus.send("a", "a1", message_ids=["m"], heads=[b"h"], formats=[1])
    bus.send("b", "b1", session_ids=["s"], time_to_live_ms=[7])
    bus.send("c", "c1", "c2", session_ids=["t", ""], session_present=[True, False])
    await read()

    [frame] = bus.frames
    batch = frame.batch
    assert list(batch.message_ids) == ["m", "", "", ""]
    assert (list(batch.heads), list(batch.formats)) == ([b"h", b"", b"", b""], [1, 0, 0, 0])
    assert list(batch.session_ids) == ["", "s", "t", ""]
    assert list(batch.session_present) == [False, True, True, False]
    assert list(batch.time_to_live_ms) == [0, 7, 0, 0]
    assert not batch.partition_keys


@pytest.mark.parametrize(
    "large", [["x"] * (MESSAGES_MAX + 1), ["x" * (BYTES_MAX + 1)]], ids=["messages", "bytes"]
)
async def test_a_large_request_goes_by_itself_after_what_its_connection_sent(
    large: list[str],
) -> None:
    bus = FrontEnd()
    bus.send("b", "b1")
    await read()
    bus.send("a", "a1")
    bus.send("c", "c1")
    bus.send("a", *large)
    bus.send("a", "a2")
    await read()

    # Behind what is under way, and before what comes later.
    assert bus.bodies == [["b1"], ["a1"], large]
    for frame_id in (1, 2, 3):
        bus.answer(frame_id)
    await read()
    assert bus.bodies[3:] == [["c1", "a2"]]


async def test_a_connection_keeps_its_order_when_the_policy_of_its_token_changes() -> None:
    bus = FrontEnd()
    bus.send("b", "b1")
    await read()
    for number in range(4):
        bus.send("a", f"a{number}", policy="one" if number % 2 else "other")
    bus.send("a", *["x"] * (MESSAGES_MAX + 1), policy="one")
    await read()

    assert bus.bodies[1] == ["a0", "a1", "a2", "a3"]
    assert len(bus.bodies[2]) == MESSAGES_MAX + 1
    for frame_id in (1, 2, 3):
        bus.answer(frame_id)
    assert bus.sends._room.held == 0


async def test_what_has_little_time_left_shortens_that_of_no_other() -> None:
    bus = FrontEnd()
    bus.send("hasty", "h1", timeout_ms=200)
    bus.send("fresh", "f1")
    bus.send("fresher", "f2")
    await read()

    assert bus.bodies == [["h1"], ["f1", "f2"]]
    now = now_ms()
    left_ms = [frame.deadline_monotonic_ms - now for frame in bus.frames]
    assert left_ms[0] <= 200 < 59_000 < left_ms[1]
    for frame_id in (1, 2):
        bus.answer(frame_id)
    assert bus.shared._lines["uid-plain"][2].waiting.is_idle


async def test_sends_keep_their_order_however_much_time_they_have() -> None:
    bus = FrontEnd()
    bus.send("a", "a1")
    bus.send("a", "a2", timeout_ms=200)
    bus.send("a", "a3")
    bus.send("b", "b1")
    await read()

    assert [body for bodies in bus.bodies for body in bodies if body in ("a1", "a2", "a3")] == [
        "a1", "a2", "a3"
    ]  # fmt: skip


async def test_two_partitions_without_an_answer_do_not_hold_up_a_send_for_long() -> None:
    bus = FrontEnd()
    for number in range(64):
        bus.send(f"c{number}", "x", to="parted")
        await read()
        bus.answer(bus.frames[-1].frame_id)
    # So much was sent a moment ago that one message is no reason to use a third partition.
    loop: Any = LaterLoop()
    bus.shared._lines["uid-parted"][None]._loop = loop
    stuck = []
    for client in ("a", "b"):
        bus.send(client, "stuck", to="parted")
        await read()
        stuck.append(bus.frames[-1].partition)
    bus.send("c", "late", to="parted")
    await read()
    assert bus.bodies[-1] == ["stuck"]

    loop.later_s = 2.0
    [timer] = loop.timers
    timer()
    await read()

    assert bus.bodies[-1] == ["late"]
    assert bus.frames[-1].partition not in stuck


async def test_a_request_that_is_refused_says_so_to_its_client_alone() -> None:
    bus = FrontEnd()
    missing = bus.send("a", "a1", to="missing")
    long = bus.send("a", "a1", message_ids=["x" * 129])
    good = bus.send("b", "b1")
    await read()
    for frame in bus.frames:
        bus.answer(frame.frame_id)

    assert isinstance(missing.error, errors.EntityNotFound)
    assert isinstance(long.error, errors.InvalidArgument)
    assert len(good.numbers) == 1
    assert bus.bodies == [["b1"]]


async def test_what_waits_counts_for_its_connection_and_is_given_back() -> None:
    bus = FrontEnd()
    bus.sends._room.use(Bounds(2 * SEND_PART_BYTES + 100, UNBOUNDED, UNBOUNDED))
    sent = [bus.send("greedy", f"g{number}") for number in range(5)]
    other = bus.send("other", "o1")
    await read()
    bus.answer(1)

    refused = [each for each in sent if isinstance(each.results[0], BusError)]
    assert len(refused) == 3
    assert {type(each.error) for each in refused} == {errors.ServerBusy}
    assert other.numbers
    assert (bus.sends._room.held, bus.sends._room.of(Holder("greedy", ""))) == (0, 0)


async def test_what_is_unknown_is_repeated_for_its_client_alone_at_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeated_sends, "PAUSE_S", 0.0)
    bus = FrontEnd()
    sent = [bus.send(client, f"{client}1", f"{client}2") for client in "abc"]
    await read()

    bus.answer(1, {3: UNKNOWN})
    assert (sent[0].numbers, sent[1].results, sent[2].numbers) == ([1, 2], [], [5, 6])
    again = await bus.repeat()
    first = bus.frames[0]
    bus.answer(2)

    assert bus.bodies[1] == ["b2"]
    assert (again.producer_id, again.producer_sequence) == (
        first.producer_id,
        first.producer_sequence,
    )
    assert (list(first.spans), list(again.spans)) == ([0, 6], [3, 1])
    assert again.age_ms > 0
    assert sent[1].numbers == [3, 7]


async def test_a_repeat_without_a_key_goes_to_the_partition_of_its_first_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeated_sends, "PAUSE_S", 0.0)
    bus = FrontEnd()
    for number in range(12):
        sent = bus.send("a", f"a{number}", to="parted")
        await read()
        [first] = [frame for frame in bus.frames if not frame.age_ms][-1:]
        bus.answer(first.frame_id, {0: UNKNOWN})
        again = await bus.repeat()
        assert again.partition == first.partition
        bus.answer(again.frame_id)
        assert sent.numbers


async def test_what_cannot_be_reached_is_answered_however_much_waits() -> None:
    bus = FrontEnd()
    bus.partitions[2].available = False
    sent = [bus.send(f"c{number}", "x") for number in range(3_000)]
    # Some batches in each iteration of the loop.
    for _ in range(20):
        await read()

    assert {type(each.error) for each in sent} == {errors.PartitionUnavailable}
    assert bus.sends._room.held == 0


async def test_an_answer_that_cannot_be_told_costs_no_other_client_its_own() -> None:
    bus = FrontEnd()

    def fail(_: SendOutcome | BusError) -> None:
        raise RuntimeError("gone")

    batch = message_pb2.MessageBatch(messages=[b"a1"])
    bus.shared.submit(SendRequest("plain", SubQueue.MAIN, batch), fail, Holder("a", ""))
    sent = bus.send("b", "b1")
    await read()
    bus.answer(1)

    assert sent.numbers == [2]


async def test_lines_without_use_are_forgotten() -> None:
    names = [f"q{number}" for number in range(1_200)]
    bus = FrontEnd([queue(name) for name in names])
    bus.send("a", "a1", to="q0")
    await read()
    for name in names[1:]:
        bus.send("a", "a1", to=name)
        await read()
        bus.answer(bus.frames[-1].frame_id)

    assert len(bus.shared._lines) < 1_010
    # A line with a batch under way is kept.
    assert "uid-q0" in bus.shared._lines


async def test_each_send_counts_for_itself_in_the_metrics() -> None:
    bus = FrontEnd()
    for client in "abc":
        bus.send(client, "1", "2")
    await read()
    bus.answer(1)

    value = bus.metrics.registry.get_sample_value
    label = {"entity": "plain"}
    assert value("bendybus_incoming_messages_total", label) == 6
    assert value("bendybus_incoming_requests_total", label) == 3
    assert value("bendybus_server_send_latency_seconds_count") == 3


async def test_a_failure_of_one_client_counts_no_message_of_another_as_not_sent() -> None:
    bus = FrontEnd()
    for client in "abc":
        bus.send(client, "1")
    await read()
    bus.answer(1, {1: FULL})

    value = bus.metrics.registry.get_sample_value
    label = {"entity": "plain"}
    assert value("bendybus_incoming_messages_total", label) == 2
    assert value("bendybus_throttled_requests_total", label) == 1


async def test_a_late_answer_that_cannot_be_told_stops_no_line() -> None:
    bus = FrontEnd()
    bus.send("a", "a1")
    await read()
    batch = message_pb2.MessageBatch(messages=[b"b1"])
    late = SendRequest("plain", SubQueue.MAIN, batch, timeout_ms=1_000, measured=True)
    gone: list[object] = []
    bus.shared.submit(late, lambda _: gone.remove("client"), Holder("b", ""))
    loop: Any = LaterLoop()
    bus.shared._lines["uid-plain"][2]._loop = loop
    loop.later_s = 2.0
    other = bus.send("c", "c1")
    bus.answer(1)
    await read()
    bus.answer(2)

    assert other.numbers == [2]
