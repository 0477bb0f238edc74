"""The streams of clients have a bound, however many come at once."""

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.frontend.core.quota.bounds import Bounds, share
from bendybus.frontend.listeners.client_streams import ClientStreams
from bendybus.frontend.security.authenticator import Authenticator
from bendybus.wire.contract_versions import CLIENT, Metadata


class Context:
    """A stream that is opened."""

    def __init__(self, peer: str = "ipv4:a", said: Metadata = (CLIENT.said,)) -> None:
        self._peer = peer
        self._said = said

    def peer(self) -> str:
        """Return the connection."""
        return self._peer

    def invocation_metadata(self) -> Metadata:
        """Return the metadata of its client."""
        return self._said


@pytest.mark.requirement("R324")
def test_no_more_streams_are_opened_than_are_allowed() -> None:
    streams = ClientStreams(Authenticator(None), 0.0)
    streams._quota.streams.use(Bounds(3, 3, 3))
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


@pytest.mark.requirement("R602")
def test_a_client_of_a_version_that_does_not_fit_is_refused_and_holds_no_place() -> None:
    streams = ClientStreams(Authenticator(None), 0.0)
    later = ("bendybus-contract", str(CLIENT.number + 2))

    with streams.opened(Context("ipv4:a", (CLIENT.said,))):
        pass
    sentences: dict[tuple[tuple[str, str], ...], str] = {
        (later,): "this client uses version 6 .* upgrade the front end first",
        (): "this client runs a version of Bendybus before 0.13.0, and the front end runs 0.14.2",
    }
    for said, sentence in sentences.items():
        with (
            pytest.raises(errors.InvalidOperation, match=sentence),
            streams.opened(Context("ipv4:a", said)),
        ):
            pass
    assert streams.idle_bytes() == 0


@pytest.mark.requirement("R421")
def test_no_stream_is_opened_while_memory_is_short() -> None:
    streams = ClientStreams(Authenticator(None), 0.0)
    streams.pressed = True

    with pytest.raises(errors.ServerBusy, match="short of memory"), streams.opened(Context()):
        pass


class Policies:
    """Takes each caller for one of the policy that it names."""

    def __init__(self) -> None:
        self.policy = ""

    def authenticate(self, _: str) -> Any:
        """Return the caller."""
        return SimpleNamespace(policy=self.policy)


@pytest.mark.requirement("R434")
def test_one_policy_leaves_streams_to_others() -> None:
    policies: Any = Policies()
    streams = ClientStreams(policies, 0.0)
    streams._quota.streams.use(Bounds(20, share(20), 20))
    policies.policy = "greedy"
    with contextlib.ExitStack() as stack:
        for _ in range(18):
            stack.enter_context(streams.opened(Context()))
        with pytest.raises(errors.ServerBusy, match="one policy"), streams.opened(Context()):
            pass
        policies.policy = "other"
        with streams.opened(Context()), streams.opened(Context()):
            pass


@pytest.mark.requirement("R433")
def test_only_streams_of_who_is_suspected_are_not_opened_while_memory_is_short() -> None:
    policies: Any = Policies()
    streams = ClientStreams(policies, 0.0)
    streams.pressed, streams.suspected = True, {"attacks"}
    policies.policy = "waits"
    with streams.opened(Context()):
        pass
    policies.policy = "attacks"
    with pytest.raises(errors.ServerBusy, match="short of memory"), streams.opened(Context()):
        pass
