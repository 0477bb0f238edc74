"""Sessions through calls and commands: lists, tokens, the command line, the example."""

import asyncio
import runpy
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest

from bendybus.client import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage, aio
from bendybus.client.management import ServiceBusAdministrationClient
from bendybus.v1 import receiver_pb2, receiver_pb2_grpc
from bendybus.wire import statuses
from bendybus.wire.contract_versions import CLIENT
from tests.integration.test_command_line import rows, run
from tests.integration.test_sessions import LONG, accept, send

EXAMPLE = Path(__file__).parents[2] / "examples" / "sessions.py"


@pytest.fixture
def sessions(new_queue: Callable[..., str]) -> str:
    """A session-aware queue, over all partitions."""
    return new_queue(requires_session=True, lock_duration="PT30S")


@pytest.mark.requirement("R107")
def test_a_list_of_sessions_goes_on_where_a_page_ended(bus: Any, sessions: str) -> None:
    with bus.client() as client:
        for number in range(10):
            send(client, sessions, f"s{number}", "x")
    channel = grpc.insecure_channel(bus.front_end_address)
    stub = receiver_pb2_grpc.ReceiverServiceStub(channel)
    found: list[str] = []
    token = b""
    while True:
        request = receiver_pb2.ListSessionsRequest(
            entity_path=sessions, page_size=2, page_token=token
        )
        answer = stub.ListSessions(request, timeout=30)
        assert len(answer.session_ids) <= 2
        found += answer.session_ids
        token = answer.next_page_token
        if not token:
            break
    channel.close()
    assert sorted(found) == [f"s{number}" for number in range(10)]


@pytest.mark.requirement("R107")
def test_the_sessions_of_all_partitions_are_listed(client: ServiceBusClient, sessions: str) -> None:
    names = [f"s{number:02}" for number in range(20)]
    for name in names:
        send(client, sessions, name, "x")
    with accept(client, sessions, "old") as receiver:
        receiver.session.set_state("x")
    time.sleep(0.01)
    since = datetime.now(UTC)
    time.sleep(0.01)
    with accept(client, sessions, LONG) as receiver:
        receiver.session.set_state("x")

    assert sorted(client.list_queue_sessions(sessions)) == sorted([*names, LONG, "old"])
    assert list(client.list_queue_sessions(sessions, state_updated_after=since)) == [LONG]


@pytest.mark.requirement("R240")
def test_the_sessions_of_all_partitions_are_listed_with_their_counts(
    bus: Any, client: ServiceBusClient, sessions: str
) -> None:
    names = [f"s{number:02}" for number in range(10)]
    for name in names:
        send(client, sessions, name, "x")
        send(client, sessions, name, "y")
    later = datetime.now(UTC) + timedelta(hours=1)
    with client.get_queue_sender(sessions) as sender:
        sender.schedule_messages(ServiceBusMessage("z", session_id=LONG), later)
    administration = ServiceBusAdministrationClient.from_connection_string(bus.connection_string)
    with accept(client, sessions, "s03") as receiver, administration:
        [message] = receiver.receive_messages(max_message_count=1, max_wait_time=10)
        receiver.session.set_state("12345")

        listed = list(administration.list_queue_sessions_runtime_properties(sessions))
        found = {each.session_id: each for each in listed}

        assert len(listed) == len(found)
        assert sorted(found) == sorted([*names, LONG])
        assert {found[name].active_message_count for name in names} == {2}
        assert found[LONG].scheduled_message_count == found[LONG].total_message_count == 1
        held = found["s03"]
        assert held.state_size_in_bytes == 5
        # What waits at the front end is locked, too.
        assert held.locked_message_count >= 1
        assert held.locked_until_utc is not None
        assert held.locked_until_utc > datetime.now(UTC)
        assert found["s02"].locked_until_utc is None
        assert found["s02"].state_size_in_bytes is None
        receiver.complete_message(message)


@pytest.mark.requirement("R241")
def test_a_list_with_counts_goes_on_inside_a_session_and_over_partitions(
    bus: Any, client: ServiceBusClient, sessions: str
) -> None:
    for number in range(6):
        send(client, sessions, f"s{number}", *["x"] * 2)
    # More than one call counts.
    messages = [ServiceBusMessage("x", session_id="large") for _ in range(1_000)]
    with client.get_queue_sender(sessions) as sender:
        for _ in range(6):
            sender.send_messages(messages)
    channel = grpc.insecure_channel(bus.front_end_address)
    stub = receiver_pb2_grpc.ReceiverServiceStub(channel)
    found: list[Any] = []
    calls, token = 0, b""
    while calls == 0 or token:
        request = receiver_pb2.ListSessionCountsRequest(
            entity_path=sessions, page_size=2, page_token=token
        )
        answer = stub.ListSessionCounts(request, timeout=30)
        assert len(answer.sessions) <= 2
        found += answer.sessions
        calls, token = calls + 1, answer.next_page_token
        assert calls < 100, "pages without an end"
    channel.close()
    counts = [(each.session_id, each.active_message_count) for each in found]
    assert sorted(counts) == [("large", 6_000), *((f"s{number}", 2) for number in range(6))]


@pytest.mark.requirement("R240")
@pytest.mark.parametrize("token", [b"\0\0\xff\xff", b"\0\0" + b"x" * 1_000, b"\0\0\x10\x09"])
def test_a_page_token_of_no_page_is_refused(bus: Any, sessions: str, token: bytes) -> None:
    channel = grpc.insecure_channel(bus.front_end_address)
    stub = receiver_pb2_grpc.ReceiverServiceStub(channel)
    request = receiver_pb2.ListSessionCountsRequest(entity_path=sessions, page_token=token)
    with pytest.raises(grpc.RpcError) as refused:
        stub.ListSessionCounts(request, timeout=30)
    channel.close()
    assert statuses.from_rpc_error(refused.value).reason == "INVALID_ARGUMENT"


def test_the_command_line_shows_sessions(bus: Any, client: ServiceBusClient) -> None:
    created = run(bus, "create", "queue", "cli-sessions", "--requires-session")
    assert created.returncode == 0, created.stderr
    for body in ("0", "1"):
        done = run(bus, "send", "cli-sessions", body, "-p", "session_id=ada")
        assert done.returncode == 0, done.stderr

    [listed] = rows(run(bus, "session", "list", "cli-sessions", "--json"))
    assert listed == {
        "session_id": "ada",
        "active_message_count": 2,
        "deferred_message_count": 0,
        "scheduled_message_count": 0,
        "locked_message_count": 0,
        "state_size_in_bytes": None,
        "locked_until_utc": None,
    }
    run(bus, "session", "state", "cli-sessions", "ada", "--set", "step 2")
    table = run(bus, "session", "list", "cli-sessions").stdout.splitlines()
    heads = ["SESSION", "ACTIVE", "DEFERRED", "SCHEDULED", "LOCKED", "STATE", "LOCKED", "UNTIL"]
    assert table[0].split() == heads
    assert table[1].split() == ["ada", "2", "0", "0", "0", "6", "B", "-"]
    [state] = rows(run(bus, "session", "state", "cli-sessions", "ada", "--json"))
    assert state == {"session_id": "ada", "state": "step 2"}
    got = rows(run(bus, "receive", "cli-sessions", "--next-session", "--max", "1", "--json"))
    got += rows(run(bus, "receive", "cli-sessions", "--session", "ada", "--max", "1", "--json"))
    assert [each["body"] for each in got] == ["0", "1"]
    none = run(bus, "receive", "cli-sessions", "--next-session", "--wait", "0.5")
    assert none.returncode == 0, none.stderr
    assert "SEQUENCE" in none.stdout


def test_the_example_of_sessions_runs(bus: Any, sessions: str) -> None:
    module = runpy.run_path(str(EXAMPLE))
    assert module["main"](bus.connection_string, sessions) == {"ada": 6, "bob": 6, "cyd": 6}


@pytest.mark.requirement("R102")
async def test_accepts_that_are_cancelled_at_any_moment_leave_no_session_locked(
    bus: Any, client: ServiceBusClient, sessions: str
) -> None:
    random, names = Random(1), [f"s{number}" for number in range(20)]
    for name in names:
        send(client, sessions, name, "x")
    async with aio.ServiceBusClient(bus.front_end_address, ("n", "k"), use_tls=False) as calling:

        def receiver(which: Any) -> Any:
            return calling.get_queue_receiver(sessions, session_id=which, max_wait_time=10)

        wanted = [*names, *[NEXT_AVAILABLE_SESSION] * 20]
        tasks = [asyncio.ensure_future(receiver(each).__aenter__()) for each in wanted]
        for task in tasks:
            await asyncio.sleep(random.random() / 200)
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        for each in done:
            if not isinstance(each, BaseException):
                await each.close()

        # Sooner than any lock ends.
        async with asyncio.timeout(15):
            opened = await asyncio.gather(*(receiver(name).__aenter__() for name in names))
        assert len(opened) == len(names)


@pytest.mark.requirement("R105")
@pytest.mark.parametrize("told", [True, False])
def test_a_stream_whose_session_is_closed_ends_when_its_client_half_closes(
    bus: Any, sessions: str, told: bool
) -> None:
    opened = threading.Event()
    accept_ = receiver_pb2.AcceptSession(session_id="s")

    def said() -> Iterator[receiver_pb2.ReceiveStreamRequest]:
        frame = receiver_pb2.OpenReceiver(entity_path=sessions, session=accept_)
        yield receiver_pb2.ReceiveStreamRequest(open=frame)
        if told:
            opened.wait(10)
        yield receiver_pb2.ReceiveStreamRequest(close_session=receiver_pb2.CloseSession())

    with grpc.insecure_channel(bus.front_end_address) as channel:
        stub = receiver_pb2_grpc.ReceiverServiceStub(channel)
        answers: list[Any] = []
        for each in stub.ReceiveStream(said(), timeout=10, metadata=(CLIENT.said,)):
            answers.append(each)
            opened.set()

    assert [each.WhichOneof("kind") for each in answers][-1] == "session_closed"
