"""Clients of the simulated world of sessions: real receivers, and applications that use them."""

import asyncio
import itertools
from typing import Any

from bendybus.client import exceptions
from bendybus.client.core.pending_receive import PendingReceive
from bendybus.client.core.receive_stream import ReceiveStream
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.client.core.session_link import SessionLink
from bendybus.client.core.settlements import Settlement
from bendybus.domain import lock_token
from bendybus.partition_server.state.answers import Done, SessionStateRead
from bendybus.partition_server.state.commands import GetSessionState, SetSessionState
from bendybus.v1 import receiver_pb2
from tests.simulation.session_history import History, Holder
from tests.simulation.wires import gone

COMPLETE = receiver_pb2.DISPOSITION_COMPLETE
ABANDON = receiver_pb2.DISPOSITION_ABANDON
RELEASE = receiver_pb2.DISPOSITION_RELEASE
UNKNOWN = (exceptions.OutcomeUnknownError,)
# Longer than a client waits for anything.
CALL_S = 90.0
_settlers = itertools.count(1)


class Waiter:
    """Hands an outcome to a task."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def resolve(self, value: Any) -> None:
        """Hand over the result."""
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Hand over the error."""
        if not self.future.done():
            self.future.set_exception(error)


class Application:
    """One receiver of a session after the other. `world` has front ends, history and randomness."""

    def __init__(self, world: Any, names: list[str]) -> None:
        self._world = world
        self._names = names
        self._random = world.random
        self._history: History = world.history
        self.sessions = 0

    async def run(self) -> None:
        """Work until the world ends."""
        while True:
            await self._one_session()
            await asyncio.sleep(self._random.uniform(0.0, 0.3))

    def _open_stream(self, name: str | None) -> ReceiveStream:
        retry = RetryPolicy(total=3, backoff_factor_s=0.1, backoff_max_s=1.0)
        opening = receiver_pb2.OpenReceiver(
            entity_path="orders",
            receive_mode=receiver_pb2.RECEIVE_MODE_PEEK_LOCK,
            settler_id=next(_settlers).to_bytes(16, "big"),
        )
        prefetch = self._random.choice((0, 0, 5))
        link = SessionLink(name, 2.0, retry)
        loop = asyncio.get_running_loop()

        async def call() -> Any:
            await asyncio.sleep(0.001)
            alive = [each for each in self._world.front_ends if each.alive]
            if not alive:
                raise gone()
            return self._random.choice(alive).open()

        return ReceiveStream(call, loop, retry, opening, prefetch, session=link)

    async def _one_session(self) -> None:
        name = self._random.choice(self._names) if self._random.random() < 0.5 else None
        stream = self._open_stream(name)
        running = asyncio.get_running_loop().create_task(stream.stream.run())
        dies = self._random.random() < 0.1
        try:
            if await self._open(stream):
                await self._work(stream)
        finally:
            if not dies:
                await stream.close()
            # Else the client process ends: the bus learns of it, or not, as of a line that breaks.
            running.cancel()
            stream._asks.stop()

    async def _open(self, stream: ReceiveStream) -> bool:
        waiter = Waiter()
        stream.open_session(waiter)
        loop = asyncio.get_running_loop()
        leaves_s = self._random.choice((CALL_S, CALL_S, CALL_S, self._random.uniform(0, 0.05)))
        done, _ = await asyncio.wait([waiter.future], timeout=leaves_s)
        if not done:
            assert leaves_s < CALL_S, "a receiver waits for ever for its session"
            waiter.future.cancel()
            stream.forget_session(waiter)
            # Calls again, or not; a receiver that is dropped is closed.
            if loop.time() % 2 < 1:
                return False
            waiter = Waiter()
            stream.open_session(waiter)
            await asyncio.wait([waiter.future], timeout=CALL_S)
        return waiter.future.done() and waiter.future.exception() is None

    async def _work(self, stream: ReceiveStream) -> None:
        link = stream.session
        assert link is not None
        assert link.session_id is not None
        holder = self._history.accepted(link.session_id)
        self.sessions += 1
        await self._read_state(link, holder)
        for _ in range(self._random.randint(1, 30)):
            waiter = Waiter()
            stream.receive(PendingReceive(self._random.randint(1, 4), 0.5, waiter))
            done, _ = await asyncio.wait([waiter.future], timeout=CALL_S)
            assert done, "a receive never ends"
            if waiter.future.exception() is not None:
                return
            for delivered, start, stop in waiter.future.result():
                for at in range(start, stop):
                    number = int(delivered.proto.messages[at].decode().split("/")[1])
                    self._history.delivered(holder, number)
            for delivered, start, stop in waiter.future.result():
                for at in range(start, stop):
                    if not await self._use(stream, holder, delivered, at):
                        return
            if self._random.random() < 0.03:
                # A slow application: its lock may end.
                await asyncio.sleep(self._random.choice((1.0, 3.0, 6.0)))

    async def _use(self, stream: ReceiveStream, holder: Holder, delivered: Any, at: int) -> bool:
        """Settle one message; False: the session is given up."""
        number = int(delivered.proto.messages[at].decode().split("/")[1])
        token = delivered.token(at)
        draw = self._random.random()
        disposition = COMPLETE if draw < 0.92 else ABANDON if draw < 0.97 else RELEASE
        waiter = Waiter()
        began = self._history.is_holder(holder)
        if disposition != COMPLETE:
            self._history.given_back(holder, number)
        else:
            self._history.settling(holder, number)
        stream.settle(Settlement(disposition, token, waiter, 20.0))
        done, _ = await asyncio.wait([waiter.future], timeout=CALL_S)
        assert done, "a settlement never ends"
        error = waiter.future.exception()
        if error is None and waiter.future.result().errors:
            error = waiter.future.result().errors[0][1]
        if disposition != COMPLETE:
            # What this client has behind it is not touched: it would overtake it.
            return False
        if error is None or isinstance(error, UNKNOWN):
            self._history.settled(holder, number, known=error is None, began_as_holder=began)
        else:
            self._history.refused(holder, number)
        if error is None and self._random.random() < 0.1:
            await self._write_state(stream, holder, number)
        return error is None

    async def _read_state(self, link: SessionLink, holder: Holder) -> None:
        answer = await self._ask(link, lambda future: GetSessionState(future, link.token))
        if isinstance(answer, SessionStateRead) and self._history.is_holder(holder):
            self._history.state_read(holder, answer.state)

    async def _write_state(self, stream: ReceiveStream, holder: Holder, number: int) -> None:
        link = stream.session
        assert link is not None
        state, possible = b"%d" % number, self._history.states[holder.name]
        possible.add(state)
        answer = await self._ask(link, lambda future: SetSessionState(future, link.token, state))
        if isinstance(answer, Done) and self._history.is_holder(holder):
            self._history.states[holder.name] = {state}

    async def _ask(self, link: SessionLink, make: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not link.token:
            return None
        self._world.processes.ask(lock_token.partition_of(link.token), make(future))
        await asyncio.wait([future], timeout=3.0)
        return future.result() if future.done() else None
