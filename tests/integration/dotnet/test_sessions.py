"""Session receivers of the SDK for .NET, and filters."""

import time
from typing import Any

import pytest

from bendybus.amqp.values import Described, Int, Symbol, Timestamp, Ulong
from tests.integration.dotnet.bus import (
    bodies,
    connected,
    message,
)
from tests.integration.dotnet.client import SESSION_FILTER, DotnetPeer
from tests.integration.dotnet.frames import Refused
from tests.integration.guarded import Guarded

NON_EXCLUSIVE = Symbol("com.microsoft:non-exclusive-session-filter")
NON_EXCLUSIVE_CODE = Ulong(0x137000000E)
# 1970-01-01 in ticks of .NET, and how many a second has.
EPOCH_TICKS, TICKS_A_S = 621_355_968_000_000_000, 10_000_000


@pytest.mark.requirement("R511")
@pytest.mark.parametrize("wanted", ["a", None])
def test_a_session_is_accepted_by_its_id_or_as_the_next_one(
    peer: DotnetPeer, sessions: str, wanted: str | None
) -> None:
    peer.send(peer.sender(sessions), message("one", group_id="a"))

    receiver = peer.session_receiver(sessions, wanted)
    found = peer.receive(receiver)
    until = receiver.properties[Symbol("com.microsoft:locked-until-utc")]

    assert receiver.answer.source.filter == {SESSION_FILTER: "a"}
    assert type(next(iter(receiver.answer.source.filter))) is Symbol
    assert bodies(found) == ["one"]
    assert type(until) is int
    assert until > EPOCH_TICKS + time.time() * TICKS_A_S


@pytest.mark.requirement("R511")
def test_a_session_is_free_when_the_amqp_session_of_its_link_ends(
    guarded: Guarded, peer: DotnetPeer, sessions: str
) -> None:
    peer.send(peer.sender(sessions), message("one", group_id="a"))
    receiver = peer.session_receiver(sessions, "a")
    peer.receive(receiver)

    peer.close(receiver)
    with connected(guarded) as other:
        [again] = other.receive(other.session_receiver(sessions, None))

    assert bodies([again]) == ["one"]


@pytest.mark.requirement("R511")
def test_a_session_has_a_state_and_is_renewed(peer: DotnetPeer, sessions: str) -> None:
    receiver = peer.session_receiver(sessions, "a")
    session = {"session-id": "a"}

    first = peer.manage(sessions, "get-session-state", session, receiver)
    state = {**session, "session-state": b"half done"}
    kept = peer.manage(sessions, "set-session-state", state, receiver)
    read = peer.manage(sessions, "get-session-state", session, receiver)
    cleared = peer.manage(
        sessions, "set-session-state", {**session, "session-state": None}, receiver
    )
    renewed = peer.manage(sessions, "renew-session-lock", session, receiver)

    assert (first.status, first.body) == (200, {"session-state": None})
    assert (kept.status, cleared.status) == (200, 200)
    assert read.body == {"session-state": b"half done"}
    assert type(renewed.body["expiration"]) is Timestamp


@pytest.mark.requirement("R511")
@pytest.mark.parametrize("any_time_ms", [253_402_300_799_999, 253_402_300_800_000])
def test_sessions_are_listed_since_any_time(
    peer: DotnetPeer, sessions: str, any_time_ms: int
) -> None:
    peer.send(peer.sender(sessions), message("one", group_id="a"))
    asked = {"last-updated-time": Timestamp(any_time_ms), "skip": Int(0), "top": Int(100)}

    listed = peer.manage(sessions, "get-message-sessions", asked)

    assert listed.status == 200
    assert listed.body["sessions-ids"].items == ["a"]


def test_a_reply_lists_a_thousand_sessions_at_most(peer: DotnetPeer, sessions: str) -> None:
    sender = peer.sender(sessions)
    for start in range(0, 1_001, 100):
        ids = range(start, min(start + 100, 1_001))
        peer.send(sender, *(message("one", group_id=f"{each}") for each in ids))
    asked = {"last-updated-time": Timestamp(253_402_300_800_000), "top": Int(2**31 - 1)}

    first = peer.manage(sessions, "get-message-sessions", {**asked, "skip": Int(0)})
    rest = peer.manage(sessions, "get-message-sessions", {**asked, "skip": Int(1_000)})

    found = [reply.body["sessions-ids"].items for reply in (first, rest)]
    assert [len(each) for each in found] == [1_000, 1]
    assert {*found[0], *found[1]} == {f"{each}" for each in range(1_001)}


@pytest.mark.requirement("R511")
@pytest.mark.parametrize("name", [NON_EXCLUSIVE, Symbol(f"{NON_EXCLUSIVE}:list")])
@pytest.mark.parametrize("descriptor", [NON_EXCLUSIVE_CODE, Symbol(f"{NON_EXCLUSIVE}:list")])
@pytest.mark.parametrize("kind", ["queue", "sessions"])
def test_a_session_that_is_not_exclusive_is_refused_in_a_sentence_that_the_sdk_knows(
    request: pytest.FixtureRequest, peer: DotnetPeer, name: str, descriptor: Any, kind: str
) -> None:
    path = request.getfixturevalue(kind)

    with pytest.raises(Refused) as refused:
        peer.receiver(path, filters={name: Described(descriptor, ["it's", None])})

    assert refused.value.condition == "amqp:not-allowed"
    # Only after the last quote does the SDK look for these words, and raises NotSupportedException.
    assert "contains invalid filter type" in refused.value.description.rpartition("'")[2]
