"""Rules and errors of $management, as the SDK for .NET reads them."""

import uuid
from typing import Any

import pytest

from bendybus.amqp.values import Array, Int, Symbol
from tests.integration.dotnet.bus import UUIDS
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
