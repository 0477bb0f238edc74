"""The streams of clients have a bound, however many come at once."""

import contextlib
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.frontend.listeners import client_streams
from bendybus.frontend.listeners.client_streams import ClientStreams
from bendybus.frontend.security.authenticator import Authenticator


class Context:
    """A stream that is opened."""

    def invocation_metadata(self) -> tuple[Any, ...]:
        """Return no token."""
        return ()


@pytest.mark.requirement("R324")
def test_no_more_streams_are_opened_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_streams, "STREAMS_MAX", 3)
    streams = ClientStreams(Authenticator(None), 0.0)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(streams.opened(Context()))
        with (
            pytest.raises(errors.ServerBusy, match="3 streams are open"),
            streams.opened(Context()),
        ):
            pass
    with streams.opened(Context()):
        pass


@pytest.mark.requirement("R421")
def test_no_stream_is_opened_while_memory_is_short() -> None:
    streams = ClientStreams(Authenticator(None), 0.0)
    streams.pressed = True

    with pytest.raises(errors.ServerBusy, match="short of memory"), streams.opened(Context()):
        pass
