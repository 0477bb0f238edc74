"""Sessions of the asynchronous surface: the API exists, sessions are not supported yet."""

from datetime import datetime
from typing import Any

from bendybus.client.exceptions import not_supported


class ServiceBusSession:
    """A session of a receiver. Sessions are not supported yet."""

    def __init__(self, session_id: str, receiver: Any) -> None:
        raise not_supported("sessions")

    @property
    def session_id(self) -> str:
        """Not supported yet."""
        raise not_supported("sessions")

    @property
    def locked_until_utc(self) -> datetime | None:
        """Not supported yet."""
        raise not_supported("sessions")

    async def get_state(self, *, timeout: float | None = None, **kwargs: Any) -> bytes:
        """Not supported yet."""
        raise not_supported("sessions")

    async def set_state(
        self, state: str | bytes | bytearray | None, *, timeout: float | None = None, **kwargs: Any
    ) -> None:
        """Not supported yet."""
        raise not_supported("sessions")

    async def renew_lock(self, *, timeout: float | None = None, **kwargs: Any) -> datetime:
        """Not supported yet."""
        raise not_supported("sessions")
