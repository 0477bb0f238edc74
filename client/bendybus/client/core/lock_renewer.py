"""What the lock renewers of both surfaces share."""

from collections.abc import Callable
from typing import Any

from bendybus.client.core import io_thread
from bendybus.client.core.io_thread import IoThread
from bendybus.client.core.renewal_schedule import Failure, Renewal, RenewalSchedule
from bendybus.client.exceptions import ServiceBusError
from bendybus.client.messages.received_message import ServiceBusReceivedMessage

DURATION_S_DEFAULT = 300.0


class BaseLockRenewer:
    """The base of the lock renewers of both surfaces, which differ in how they call back."""

    _duration_s: float
    _on_failure: Failure | None
    _notify: Callable[[Renewal, ServiceBusError], None]

    def __init__(self, max_lock_renewal_duration: float, on_failure: Failure | None) -> None:
        self._duration_s = max_lock_renewal_duration
        self._on_failure = on_failure
        self._closed = False
        self._io: IoThread | None = None
        self._renewing: RenewalSchedule | None = None

    def register(
        self,
        receiver: Any,
        renewable: ServiceBusReceivedMessage,
        max_lock_renewal_duration: float | None = None,
        on_lock_renew_failure: Failure | None = None,
    ) -> None:
        """Renew the lock of a message until it is settled or the duration has passed.

        `receiver`: the receiver of `renewable`, the message. `max_lock_renewal_duration` and
        `on_lock_renew_failure` override those of the renewer.
        """
        if not isinstance(renewable, ServiceBusReceivedMessage):
            raise TypeError(
                f"renewable: must be a ServiceBusReceivedMessage (got {type(renewable).__name__})"
            )
        self._check_open()
        if renewable.locked_until_utc is None or renewable._peeked:
            raise ValueError("renewable: the message has no lock.")
        entry = Renewal(
            receiver._receive_stream(),
            renewable,
            self._duration_s if max_lock_renewal_duration is None else max_lock_renewal_duration,
            on_lock_renew_failure or self._on_failure,
        )
        entry.receiver = receiver
        io = io_thread.current()
        with io_thread.making():
            if self._renewing is None or self._io is not io:
                self._io, self._renewing = io, RenewalSchedule(io.loop, self._notify)
        io.submit(self._renewing.add, entry)

    def _check_open(self) -> None:
        if self._closed:
            raise ServiceBusError("The AutoLockRenewer is closed: create another one.")

    def _end(self) -> None:
        self._closed = True
        if self._renewing is not None and self._io is io_thread.current():
            self._io.submit(self._renewing.close)
