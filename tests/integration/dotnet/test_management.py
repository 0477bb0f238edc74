"""Rules and errors of $management, as the SDK for .NET reads them."""

import uuid
from typing import Any

import pytest

from bendybus.amqp.performatives import Error, Modified, Rejected
from bendybus.amqp.values import Array, Int, Symbol, Uint
from tests.integration.dotnet.bus import LONGS, UUIDS, created, left, message
from tests.integration.dotnet.client import DotnetPeer
from tests.integration.guarded import Guarded


@pytest.mark.requirement("R512")
def test_rules_are_added_listed_and_removed(guarded: Guarded, peer: DotnetPeer) -> None:
    path = "topic/Subscriptions/all"
    texts = ("correlation-id", "message-id", "to", "reply-to", "label", "session-id",
             "reply-to-session-id", "content-type")  # fmt: skip
    correlation: dict[str, Any] = dict.fromkeys(texts)
    correlation["label"] = "red"
    correlation["properties"] = {"size": Int(5)}
    rules = {
        "sql": {
            "sql-filter": {"expression": "size > 3"},
            "sql-rule-action": {"expression": "SET size = 1"},
            "rule-name": "sql",
        },
        "all": {"sql-filter": {"expression": "1=1"}, "sql-rule-action": None, "rule-name": "all"},
        "red": {"correlation-filter": correlation, "sql-rule-action": None, "rule-name": "red"},
    }
    added = [
        peer.manage(path, "add-rule", {"rule-name": name, "rule-description": rule}).status
        for name, rule in rules.items()
    ]

    listed = peer.manage(path, "enumerate-rules", {"top": Int(100), "skip": Int(0)})
    removed = [peer.manage(path, "remove-rule", {"rule-name": name}).status for name in rules]
    rest = peer.manage(path, "enumerate-rules", {"top": Int(100), "skip": Int(1)})

    assert added == removed == [200, 200, 200]
    found = [each["rule-description"] for each in listed.body["rules"]]
    assert {each.descriptor for each in found} == {0x13700000004}
    described = {each.value[2]: each.value for each in found}
    assert described["red"][0].value == [*(correlation[name] for name in texts), {"size": 5}]
    assert described["sql"][1].value[0] == "SET size = 1"
    assert described["all"][1].descriptor == 0x13700000005
    assert rest.status == 204


@pytest.mark.requirement("R512")
def test_an_error_of_management_is_a_symbol_beside_an_int(peer: DotnetPeer, queue: str) -> None:
    tokens = Array(UUIDS, [uuid.uuid4()])
    asked = {"lock-tokens": tokens, "disposition-status": "completed"}

    lost = peer.manage(queue, "update-disposition", asked)
    unknown = peer.manage(queue, "read-minds", {})

    # The SDK casts both; a status of another type counts as none.
    for reply, status, condition in (
        (lost, 410, "com.microsoft:message-lock-lost"),
        (unknown, 400, "amqp:not-allowed"),
    ):
        assert (type(reply.status), reply.status) == (Int, status)
        assert (type(reply.condition), reply.condition) == (Symbol, condition)


@pytest.mark.requirement("R523")
@pytest.mark.parametrize("sub_queue", ["", "/$DeadLetterQueue"])
@pytest.mark.parametrize("with_sessions", [False, True])
def test_only_an_entity_with_sessions_has_session_locks(
    guarded: Guarded, peer: DotnetPeer, *, sub_queue: str, with_sessions: bool
) -> None:
    queue = created(guarded, requires_session=with_sessions)
    path = f"{queue}{sub_queue}"
    peer.send(peer.sender(queue), message("one", group_id="s"))
    if sub_queue:
        link = peer.session_receiver(queue, "s") if with_sessions else peer.receiver(queue)
        [first] = peer.receive(link)
        peer.dispose(first, Rejected(Error("com.microsoft:dead-letter", info={})))
        receiver = peer.receiver(path)
    else:
        receiver = peer.session_receiver(path, "s") if with_sessions else peer.receiver(path)
    [found] = peer.receive(receiver)
    peer.dispose(found, Modified(undeliverable_here=True))
    numbers = Array(LONGS, [found.sequence_number])

    # Current SDKs for JavaScript and Java name the session of the message, whatever holds it.
    asked = {"sequence-numbers": numbers, "receiver-settle-mode": Uint(1), "session-id": "s"}
    again = peer.manage(path, "receive-by-sequence-number", asked, receiver)
    [entry] = again.body["messages"]
    settled = {
        "lock-tokens": Array(UUIDS, [entry["lock-token"]]),
        "disposition-status": "completed",
        "session-id": "s",
    }
    done = peer.manage(path, "update-disposition", settled)

    assert (again.status, done.status) == (200, 200)
    assert left(guarded, queue) == (0, 0, 0)


@pytest.mark.requirement("R523")
def test_a_session_that_no_link_holds_is_lost(
    guarded: Guarded, peer: DotnetPeer, sessions: str
) -> None:
    tokens = Array(UUIDS, [uuid.uuid4()])
    asked = {"lock-tokens": tokens, "disposition-status": "completed", "session-id": "s"}

    lost = peer.manage(sessions, "update-disposition", asked)

    assert (lost.status, lost.condition) == (410, "com.microsoft:session-lock-lost")


@pytest.mark.requirement("R525")
@pytest.mark.parametrize("unknown", [45, 3 << 48 | 45, 15 << 48 | 1])
def test_an_unknown_number_beside_a_deferred_one_is_not_found(
    peer: DotnetPeer, queue: str, unknown: int
) -> None:
    peer.send(peer.sender(queue), message("one"))
    receiver = peer.receiver(queue)
    [found] = peer.receive(receiver)
    peer.dispose(found, Modified(undeliverable_here=True))

    def ask(*numbers: int) -> Any:
        wanted = Array(LONGS, list(numbers))
        asked = {"sequence-numbers": wanted, "receiver-settle-mode": Uint(1)}
        return peer.manage(queue, "receive-by-sequence-number", asked, receiver)

    missing = ask(found.sequence_number, unknown)
    cancelled = peer.manage(
        queue, "cancel-scheduled-message", {"sequence-numbers": Array(LONGS, [unknown])}
    )
    there = ask(found.sequence_number)

    for reply in (missing, cancelled):
        assert (reply.status, reply.condition) == (404, "com.microsoft:message-not-found")
    assert there.status == 200


@pytest.mark.requirement("R525")
def test_a_reason_that_is_no_text_stays_a_property(peer: DotnetPeer, queue: str) -> None:
    peer.send(peer.sender(queue), message("one"))
    [found] = peer.receive(peer.receiver(queue))
    info = {Symbol("DeadLetterReason"): Int(5), Symbol("DeadLetterErrorDescription"): True}

    peer.dispose(found, Rejected(Error("com.microsoft:dead-letter", info=info)))

    [dead] = peer.receive(peer.receiver(f"{queue}/$DeadLetterQueue"))
    assert dead.message.application_properties == {
        "DeadLetterReason": 5,
        "DeadLetterErrorDescription": True,
    }
