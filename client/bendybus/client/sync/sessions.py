# Generated from aio/sessions.py by `make sync`: edit that file.
"""The session of a receiver of the synchronous surface."""

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bendybus.client.core import session_link as core
from bendybus.client.core.connection import SharedConnection
from bendybus.client.core.session_link import BaseSession
from bendybus.client.sync import calls
from bendybus.client.sync.management.management_calls import ItemPaged

if TYPE_CHECKING:
    from bendybus.client.sync.receiver import ServiceBusReceiver


class ServiceBusSession(BaseSession):
    """The session of a receiver: its lock, and what receivers keep for it. `receiver.session`.

    Every call accepts the session first, if the receiver has not done so yet. Raises
    SessionLockLostError when its lock is lost: then get another receiver of the session.
    """

    _receiver: "ServiceBusReceiver"

    def get_state(self, *, timeout: float | None = None, **kwargs: Any) -> bytes:
        """Return what is kept for the session; None: nothing.

        `timeout`: seconds for the whole call, 60 if None; more than 15 is advised.
        """
        timeout_s = core.timeout_of(timeout, kwargs)
        self._receiver._open_session()
        answer = calls.call(
            self._receiver._shared.get(),
            lambda stubs: stubs.receiver.GetSessionState,
            self._read_request(),
            timeout_s,
        )
        # The type is that of azure-servicebus, which has none for nothing either.
        return answer.state if answer.HasField("state") else None  # type: ignore[return-value]

    def set_state(
        self, state: str | bytes | bytearray | None, *, timeout: float | None = None, **kwargs: Any
    ) -> None:
        """Keep something for the session; it stays when the lock ends.

        `state`: at most as large as a message; a text is kept as UTF-8, None clears it. `timeout`:
        seconds for the whole call, 60 if None; more than 15 is advised.
        """
        timeout_s = core.timeout_of(timeout, kwargs)
        self._receiver._open_session()
        calls.call(
            self._receiver._shared.get(),
            lambda stubs: stubs.receiver.SetSessionState,
            self._state_request(state),
            timeout_s,
        )

    def renew_lock(self, *, timeout: float | None = None, **kwargs: Any) -> datetime:
        """Renew the lock, and those of the session's messages. Returns its new expiry.

        `timeout`: seconds for the whole call, 60 if None; more than 15 is advised.
        """
        timeout_s = core.timeout_of(timeout, kwargs)
        self._receiver._open_session()
        asked_s = time.monotonic()
        answer = calls.call(
            self._receiver._shared.get(),
            lambda stubs: stubs.receiver.RenewSessionLock,
            self._renew_request(),
            timeout_s,
        )
        return self._renewed(answer, asked_s)


def listed(
    shared: SharedConnection, path: str, state_updated_after: datetime | None, timeout: float | None
) -> ItemPaged[str]:
    """Return the sessions of an entity, page by page."""
    after_ms = core.updated_after_ms(state_updated_after)
    until_s = time.monotonic() + core.timeout_of(timeout, {})

    def fetch(token: str) -> tuple[list[str], str]:
        answer = calls.call(
            shared.get(),
            lambda stubs: stubs.receiver.ListSessions,
            core.list_request(path, token, after_ms),
            max(0.001, until_s - time.monotonic()),
        )
        return list(answer.session_ids), answer.next_page_token.hex()

    return ItemPaged(fetch)
