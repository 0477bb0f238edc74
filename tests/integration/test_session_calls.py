"""Sessions through calls and commands: lists, tokens, the command line, the example."""

import asyncio
import runpy
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest

from bendybus.client import NEXT_AVAILABLE_SESSION, ServiceBusClient, aio
from bendybus.v1 import receiver_pb2, receiver_pb2_grpc
from bendybus.wire import statuses
from tests.integration.test_command_line import rows, run
from tests.integration.test_sessions import LONG, accept, send

EXAMPLE = Path(__file__).parents[2] / "examples" / "sessions.py"


@pytest.fixture
def sessions(new_queue: Callable[..., str]) -> str:
    """A session-aware queue, over all partitions."""
    return new_queue(requires_session=True, lock_duration="PT30S")


@pytest.mark.requirement("R106")
def test_the_token_of_a_session_is_of_no_use_with_another_queue(
    bus: Any, client: ServiceBusClient, new_queue: Callable[..., str], sessions: str
) -> None:
    other = new_queue(requires_session=True)
    channel = grpc.insecure_channel(bus.front_end_address)
    stub = receiver_pb2_grpc.ReceiverServiceStub(channel)
    with accept(client, sessions, "s") as receiver:
        named: dict[str, Any] = {
            "session_token": receiver._session_token(),
            "entity_path": sessions,
        }
        stub.GetSessionState(receiver_pb2.GetSessionStateRequest(**named), timeout=30)
        named["entity_path"] = other
        calls: list[tuple[Any, Any]] = [
            (stub.GetSessionState, receiver_pb2.GetSessionStateRequest(**named)),
            (stub.SetSessionState, receiver_pb2.SetSessionStateRequest(**named)),
            (stub.RenewSessionLock, receiver_pb2.RenewSessionLockRequest(**named)),
        ]
        for call, request in calls:
            with pytest.raises(grpc.RpcError) as refused:
                call(request, timeout=30)
            assert statuses.from_rpc_error(refused.value).reason == "SESSION_LOCK_LOST"
    channel.close()


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
        receiver.session.set_state("x")  # type: ignore[union-attr]
    time.sleep(0.01)
    since = datetime.now(UTC)
    time.sleep(0.01)
    with accept(client, sessions, LONG) as receiver:
        receiver.session.set_state("x")  # type: ignore[union-attr]

    assert sorted(client.list_queue_sessions(sessions)) == sorted([*names, LONG, "old"])
    assert list(client.list_queue_sessions(sessions, state_updated_after=since)) == [LONG]


def test_the_command_line_shows_sessions(bus: Any, client: ServiceBusClient) -> None:
    created = run(bus, "create", "queue", "cli-sessions", "--requires-session")
    assert created.returncode == 0, created.stderr
    for body in ("0", "1"):
        done = run(bus, "send", "cli-sessions", body, "-p", "session_id=ada")
        assert done.returncode == 0, done.stderr

    listed = rows(run(bus, "session", "list", "cli-sessions", "--json"))
    assert listed == [{"session_id": "ada"}]
    run(bus, "session", "state", "cli-sessions", "ada", "--set", "step 2")
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
