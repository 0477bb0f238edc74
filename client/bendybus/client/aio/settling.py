"""How receivers of the asynchronous surface settle: at once, in the background, or with others."""

from collections.abc import Callable
from typing import Any

from bendybus.client.aio.transaction import ServiceBusTransaction
from bendybus.client.core import background_settlements, io_thread
from bendybus.client.core import receiver as core
from bendybus.client.core.background_settlements import BackgroundSettlements, Failures
from bendybus.client.core.receiver import BaseReceiver, Settled
from bendybus.client.core.settlements import Outcome, Settlement
from bendybus.client.core.waiters import LoopWaiter
from bendybus.client.messages.received_message import ServiceBusReceivedMessage


class SettlingReceiver(BaseReceiver):
    """The base of the receiver: what becomes of a settlement that it made."""

    def settle_in_background(self) -> None:
        """Let settlements return at once from now on, before the bus confirms them.

        Faster, and weaker: until `flush` or `close` returns, a message that was completed may come
        again, should this process or the bus fail. Both wait for the bus, and raise an error whose
        `failures` lists the messages that were not settled; nothing else reports these. At most
        5,000 messages are unconfirmed; further settlements wait. Renewing a lock still waits for
        its new end.
        """
        self._check_live()
        if self._background is None:
            self._background = BackgroundSettlements(io_thread.current())

    async def flush(self) -> None:
        """Wait until the bus has confirmed all settlements in the background.

        Raises the error of the first message that was not settled since the last flush; its
        `failures` lists them.
        """
        background_settlements.raise_failures(*await self._confirm())

    async def _settle(
        self,
        messages: Settled,
        make: Callable[[Any], Settlement],
        tx: ServiceBusTransaction | None = None,
    ) -> Outcome:
        background = self._in_background()
        if background is None or tx is not None:
            return await self._settle_now(messages, make, tx)
        return await self._begin_to_settle(background, messages, make)

    async def _begin_to_settle(
        self,
        background: BackgroundSettlements,
        messages: Settled,
        make: Callable[[Any], Settlement],
    ) -> Outcome:
        listed = [messages] if isinstance(messages, ServiceBusReceivedMessage) else list(messages)
        settlement = make(background_settlements.Pending(background, listed))
        settlement.in_background = True
        if background.full:
            await self._settled_up_to(background, background_settlements.PENDING_MAX // 2)
        stream = self._receive_stream()
        background.add(listed)
        self._shared.get().io.submit(stream.settle, settlement)
        return background_settlements.BEGUN

    async def _settle_now(
        self,
        messages: Settled,
        make: Callable[[LoopWaiter], Settlement],
        tx: ServiceBusTransaction | None = None,
    ) -> Outcome:
        if tx is not None:
            self._check_tx(tx)
            return await tx._settle(self, messages, make)
        waiter = self._shared.get().io.loop_waiter()
        settlement = make(waiter)
        if self._tracing is None:
            return await self._settled(settlement, waiter)
        with self._tracing.settling(self.entity_path, settlement.disposition, messages) as found:
            return found.outcome(await self._settled(settlement, waiter))

    async def _settled(self, settlement: Settlement, waiter: LoopWaiter) -> Outcome:
        stream = self._receive_stream()
        self._shared.get().io.submit(stream.settle, settlement)
        outcome: Outcome = await waiter.wait(settlement.timeout_s)
        return outcome

    async def _confirm(self) -> Failures:
        """Wait for the settlements in the background; return what was not settled."""
        background = self._in_background()
        if background is None:
            return [], 0
        await self._settled_up_to(background, 0)
        return background.take_failures()

    async def _confirm_last(self) -> Failures:
        """The same, and take no calls from now on. The stream is still to be closed."""
        ended = self._closed or self._connection is None or self._connection.closed
        self._closed = True
        return ([], 0) if ended else await self._confirm()

    async def _settled_up_to(self, background: BackgroundSettlements, pending_max: int) -> None:
        waiter = self._shared.get().io.loop_waiter()
        background.wait(pending_max, waiter)
        await waiter.wait(core.FLUSH_S)
