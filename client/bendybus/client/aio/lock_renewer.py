"""The lock renewer of the asynchronous surface."""

import asyncio
from types import TracebackType

from bendybus.client.core.lock_renewer import DURATION_S_DEFAULT, BaseLockRenewer, Failure, Renewal
from bendybus.client.core.receiver import BaseReceiver
from bendybus.client.core.session_link import BaseSession
from bendybus.client.exceptions import ServiceBusError
from bendybus.client.messages.received_message import ServiceBusReceivedMessage


class AutoLockRenewer(BaseLockRenewer):
    """Renews locks in the background, even while the loop is blocked; calls back on the loop."""

    def __init__(
        self,
        max_lock_renewal_duration: float = DURATION_S_DEFAULT,
        on_lock_renew_failure: Failure | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Create a renewer.

        `max_lock_renewal_duration`: for how many seconds a lock is renewed.
        `on_lock_renew_failure`: called with the message and the error when a lock is lost. `loop`:
        where to call back; None: the loop that registers.
        """
        super().__init__(max_lock_renewal_duration, on_lock_renew_failure)
        self._loop = loop
        self._callbacks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "AutoLockRenewer":
        self._check_open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def register(
        self,
        receiver: BaseReceiver,
        renewable: ServiceBusReceivedMessage | BaseSession,
        max_lock_renewal_duration: float | None = None,
        on_lock_renew_failure: Failure | None = None,
    ) -> None:
        """Renew the lock of a message or session until it is given up or the duration has passed.

        `receiver`: the receiver of `renewable`, the message or its `session`.
        `max_lock_renewal_duration` and `on_lock_renew_failure` override those of the renewer.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        super().register(receiver, renewable, max_lock_renewal_duration, on_lock_renew_failure)

    async def close(self) -> None:
        """Stop renewing; wait for running callbacks."""
        self._end()
        if self._callbacks:
            await asyncio.wait(self._callbacks)

    def _notify(self, entry: Renewal, error: ServiceBusError) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._call_back, entry, error)

    def _call_back(self, entry: Renewal, error: ServiceBusError) -> None:
        if entry.fail is None or self._closed:
            return
        outcome = entry.fail(entry.message, error)
        if asyncio.iscoroutine(outcome):
            task = asyncio.get_running_loop().create_task(outcome, name="bendybus-callback")
            self._callbacks.add(task)
            task.add_done_callback(self._callbacks.discard)
