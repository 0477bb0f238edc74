"""The stream under senders and receivers: when it is written to, and what its end means."""

import asyncio
import contextlib
from typing import Any

import grpc
import pytest

from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.stream import Stream
from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.wire import streams
from bendybus.wire.contract_versions import CLIENT


class Call:
    """A stream of gRPC whose server decides when the test says so."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.decided = asyncio.Event()
        self.metadata = grpc.aio.Metadata()
        self.ended = asyncio.Event()

    def admit(self, metadata: grpc.aio.Metadata) -> None:
        """Let the stream in."""
        self.metadata = metadata
        self.decided.set()

    def refuse(self) -> None:
        """Turn the stream away: gRPC has empty metadata a moment before the status."""
        self.decided.set()
        asyncio.get_running_loop().call_soon(self.ended.set)

    async def wait_for_connection(self) -> None:
        """Be connected."""

    async def initial_metadata(self) -> grpc.aio.Metadata:
        """Wait for the decision."""
        await self.decided.wait()
        return self.metadata

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        """Return nothing."""
        return grpc.aio.Metadata()

    async def code(self) -> grpc.StatusCode:
        """Return the end's status."""
        await self.ended.wait()
        return grpc.StatusCode.UNAUTHENTICATED

    async def details(self) -> str:
        """Return the end's sentence."""
        return "the token cannot be read."

    async def write(self, request: Any) -> None:
        """Take a request."""
        self.written.append(request)

    async def done_writing(self) -> None:
        """Half-close."""

    async def read(self) -> Any:
        """Wait for the end."""
        await self.ended.wait()
        return grpc.aio.EOF

    def cancel(self) -> bool:
        """End."""
        self.ended.set()
        return True


class Owner:
    """Has one request to write, once."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.requests = ["request"]
        self.error: asyncio.Future[BusError] = asyncio.get_running_loop().create_future()

    async def open_call(self) -> Any:
        """Return the call."""
        return self.call

    def has_work(self) -> bool:
        """Whether the stream has not ended yet."""
        return not self.error.done()

    def next_request(self) -> Any | None:
        """Return the request."""
        return self.requests.pop() if self.requests else None

    def handle(self, response: Any) -> None:
        """Take an answer."""

    def broken(self, error: BusError) -> None:
        """Keep what it ended with."""
        self.error.set_result(error)


async def test_who_is_turned_away_has_written_nothing_and_knows_why() -> None:
    call = Call()
    owner = Owner(call)
    stream = Stream(owner, RetryPolicy())
    running = asyncio.get_running_loop().create_task(stream.run())
    await _turns()

    assert call.written == []
    call.refuse()
    error = await asyncio.wait_for(owner.error, 30)
    await stream.close()
    await running

    assert call.written == []
    assert isinstance(error, errors.Unauthenticated)


async def test_who_is_let_in_writes() -> None:
    call = Call()
    stream = Stream(Owner(call), RetryPolicy())
    running = asyncio.get_running_loop().create_task(stream.run())
    call.admit(grpc.aio.Metadata(streams.ADMITTED, CLIENT.said))
    async with asyncio.timeout(30):
        while not call.written:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await stream.close()
    await running

    assert call.written == ["request"]


@pytest.mark.requirement("R602")
async def test_a_front_end_of_a_version_that_does_not_fit_is_sent_nothing() -> None:
    call = EndlessCall()
    owner = Owner(call)
    stream = Stream(owner, RetryPolicy())
    running = asyncio.get_running_loop().create_task(stream.run())
    later = ("bendybus-contract", str(CLIENT.number + 2))
    call.admit(grpc.aio.Metadata(streams.ADMITTED, later))

    error = await asyncio.wait_for(owner.error, 30)
    await stream.close()
    await running

    assert isinstance(error, errors.InvalidOperation)
    assert "the front end uses version 6 of the contract" in error.message
    assert "upgrade this client first" in error.message
    assert call.written == []


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class EndlessCall(Call):
    """A stream that ends only when it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = asyncio.Event()

    async def read(self) -> Any:
        """Wait for the end."""
        await self.cancelled.wait()
        raise asyncio.CancelledError

    def cancel(self) -> bool:
        """End it."""
        self.cancelled.set()
        return True


@pytest.mark.requirement("R485")
async def test_a_stream_that_is_closed_in_the_step_in_which_it_was_opened_ends() -> None:
    class Opening(Owner):
        stream: Stream
        closing: asyncio.Task[None]

        async def open_call(self) -> Any:
            # Runs next, before anything else learns of the call.
            self.closing = asyncio.create_task(self.stream.close())
            return EndlessCall()

    owner = Opening(EndlessCall())
    owner.stream = stream = Stream(owner, RetryPolicy())
    run = asyncio.create_task(stream.run())
    await asyncio.sleep(0.05)
    try:
        await owner.closing

        assert (await asyncio.wait({run}, timeout=1))[0]
    finally:
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run
