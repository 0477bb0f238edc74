"""Odd names, addresses and frames from who has every right: refused in a sentence, never a defect.

`make test` runs some dozens of random sequences; BENDYBUS_ODD_ROUNDS sets how many.
"""

import contextlib
import gc
import os
import random
import time
import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest

from bendybus.amqp import frames, sections, values
from bendybus.amqp.performatives import (
    Accepted,
    Attach,
    Coordinator,
    Declare,
    Detach,
    Disposition,
    Modified,
    Open,
    Rejected,
    Released,
    SaslInit,
    Transfer,
)
from bendybus.amqp.sections import Message, Properties
from bendybus.amqp.values import Array, Described, Pairs, Symbol, Timestamp, Ubyte, Uint, Ulong
from bendybus.frontend.listeners.amqp.management import OPERATIONS
from tests.amqp.peers import framed, message
from tests.amqp.test_hostile_bytes import mutated
from tests.amqp.test_hostile_frames import NUMBERS, STATES, Peer
from tests.integration.guarded import Guarded
from tests.integration.raw_amqp import RECEIVER, SENDER, RawAmqp, attach_of, ended, flow_of
from tests.integration.secured import ROOT_KEY, ROOT_POLICY

ROUNDS: Final = int(os.environ.get("BENDYBUS_ODD_ROUNDS", "40"))
ADDRESSES: Final = (
    "orders", "orders", "/ORDERS", "sessions", "topic", "topic/subscriptions/all",
    "bills/$DeadLetterQueue",
    "orders/$management", "sessions/$management", "topic/subscriptions/all/$management", "$cbs",
    "$management", "orders/$management/$management", "orders/$nothing", "nowhere",
)  # fmt: skip
PEEK: Final = {"from-sequence-number": 0, "message-count": values.Int(1)}
SENDABLE: Final = (
    "orders", "sessions", "orders/$management", "sessions/$management", "coordinator",
    "topic/subscriptions/all/$management", "bills/$DeadLetterQueue/$management",
)  # fmt: skip
REFUSED: Final = {
    "a" * 260: "amqp:not-found",
    "a" * 10_000: "",
    "../orders": "amqp:not-found",
    "orders/..": "amqp:not-found",
    "amqp://host/orders%2F$DeadLetterQueue%00": "amqp:not-allowed",
    "amqp://[::1/orders": "com.microsoft:argument-error",
    "orders\0": "amqp:not-found",
    "ör\u0000ders\u202e": "amqp:not-found",
    "orders/$management/$management": "amqp:not-allowed",
    "orders/$nothing": "amqp:not-allowed",
    "": "com.microsoft:argument-error",
    "orders/$DeadLetterQueue/$DeadLetterQueue": "amqp:not-allowed",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("odd"))
    yield made
    made.end()
    gc.collect()


def log_of(guarded: Guarded) -> str:
    return (guarded.folder / "front-end.log").read_text()


@pytest.mark.parametrize("address", REFUSED, ids=lambda text: ascii(text[:30]))
def test_odd_addresses_are_refused_with_a_reason(guarded: Guarded, address: str) -> None:
    wanted = REFUSED[address]
    with guarded.raw().plain(ROOT_POLICY, ROOT_KEY) as peer:
        if not wanted:
            peer.send(attach_of(address, SENDER, 0))
            peer.wait_for_end()
            return
        refused = peer.attach(address, RECEIVER)
        assert refused is not None
        assert ended(refused) == wanted, refused
        assert len(refused.error.description) < 800


@pytest.mark.parametrize(
    "path", ["bills/$DeadLetterQueue", "BILLS/$deadletterqueue", "topic/Subscriptions/All"]
)
def test_management_of_sub_queues_and_subscriptions_is_theirs(guarded: Guarded, path: str) -> None:
    with guarded.raw().plain(ROOT_POLICY, ROOT_KEY) as peer:
        assert peer.manage(path, "peek-message", PEEK)[0] == 204
        assert peer.manage(path, "no-such", PEEK)[0] == 400


@pytest.mark.parametrize("size", [512, 700])
def test_refusals_fit_into_the_frames_of_a_small_peer(guarded: Guarded, size: int) -> None:
    long = "a" * 250
    with guarded.raw() as peer:
        assert peer.sasl("PLAIN", f"\0{ROOT_POLICY}\0{ROOT_KEY}".encode()) == 0
        peer.opened(max_frame_size=size)
        for address in (f"{guarded.uri()}{long}", "a" * 300):
            assert peer.attach(address, SENDER) is not None
        assert peer.attach("orders", SENDER) is None
        refused = peer.transfer("orders", message(b"x" * 400), state=None)
        assert isinstance(refused, Accepted)
        broken = b"\x00\x53\x75\xb0\xff\xff\xff\xff" + b"x" * 300
        assert not isinstance(peer.transfer("orders", broken), Accepted)


def anything(chance: random.Random, depth: int = 0) -> Any:
    """Return a value of any type."""
    flat = (
        None, True, 0, -1, 2**31, 2**63 - 1, -(2**63), "", "a", "x" * 300, b"", b"x" * 20, 1.5,
        float("nan"), uuid.uuid4(), Timestamp(-1), Timestamp(2**62), Ulong(2**64 - 1), Uint(7),
        Symbol("s"), Ubyte(3), Array(values.UUID, [uuid.uuid4()]), Array(values.LONG, [1, -5]),
        Array(values.LONG, []), Array(values.LONG, [2**62] * 900), "\0", "\ud7ff",
    )  # fmt: skip
    if depth < 3 and chance.random() < 0.3:
        inner = [anything(chance, depth + 1) for _ in range(chance.randrange(4))]
        return chance.choice(
            (inner, Pairs([(each, None) for each in inner]), Described(Ulong(5), inner))
        )
    return chance.choice(flat)


FIELDS: Final = (
    "lock-tokens", "from-sequence-number", "message-count", "session-id", "sequence-numbers",
    "receiver-settle-mode", "messages", "disposition-status", "deadletter-reason",
    "properties-to-modify", "session-state", "last-updated-time", "skip", "top", "rule-name",
    "rule-description", "enqueued-time-utc",
)  # fmt: skip


def request(chance: random.Random) -> bytes:
    """Return a request of a management node."""
    body: Any = {name: anything(chance) for name in FIELDS if chance.random() < 0.8}
    if chance.random() < 0.4:
        body["messages"] = [{"message": chance.choice((message(), b"x", b"")), "message-id": 5}]
        body["disposition-status"] = chance.choice(("completed", "defered", "suspended"))
    if chance.random() < 0.4:
        body["message-count"], body["top"], body["skip"] = 3, 5, 0
    if chance.random() < 0.3:
        rule: Any = {chance.choice(("sql-filter", "correlation-filter")): anything(chance)}
        body["rule-description"], body["rule-name"] = rule, chance.choice(("r", "x" * 100, ""))
    properties = {
        "operation": "com.microsoft:" + chance.choice((*OPERATIONS, "odd")),
        "com.microsoft:server-timeout": chance.choice((Uint(0), Uint(1), Uint(2**32 - 1), "x", -5)),
    }
    asked = Message(
        properties=Properties(message_id=chance.choice((Ulong(1), "a", None)), reply_to="raw"),
        application_properties=chance.choice((properties, properties, None)),
        value=body if chance.random() < 0.95 else anything(chance),
        has_value=True,
    )
    return sections.encode(asked)


def attempt(guarded: Guarded, round_: int) -> None:
    """Send a random sequence of frames, most of which make sense."""
    chance = random.Random(round_)
    peer = Peer(chance)
    with guarded.raw() as raw, contextlib.suppress(OSError):
        plain = SaslInit("PLAIN", f"\0{ROOT_POLICY}\0{ROOT_KEY}".encode())
        raw.write(frames.SASL_HEADER + framed(plain, kind=frames.SASL) + frames.AMQP_HEADER)
        raw.write(framed(Open("odd", max_frame_size=chance.choice((512, 65_536)))))
        raw.write(peer.opening()[-1])
        senders = attach_some(chance, raw)
        for number in range(40):
            node = chance.choice(list(senders))
            if senders[node].endswith("$management"):
                payload = request(chance)
            else:
                payload = chance.choice((message(), b"\x00\x53\x77" + Declare().encoded(), b"x"))
            transfer = Transfer(node, number, b"%d" % number, settled=chance.random() < 0.1)
            state = chance.choice(STATES)
            disposed = Disposition(RECEIVER, 0, chance.randrange(40), chance.random() < 0.3, state)
            flow = flow_of(chance.randrange(5, 8), chance.choice(NUMBERS), drain=number % 3 == 0)
            sent = (transfer, payload)
            what = chance.choice((sent, sent, (disposed, b""), (flow, b"")))
            data = framed(*what) if chance.random() < 0.98 else peer.frame()
            raw.write(mutated(chance, data) if chance.random() < 0.01 else data)
            raw.read(0.002)
        raw.read(0.05)


@pytest.mark.parametrize(
    "descriptor", [Ulong(0x137000000C), Symbol("com.microsoft:session-filter")]
)
def test_a_session_filter_may_be_a_described_value(guarded: Guarded, descriptor: Any) -> None:
    name = Symbol("com.microsoft:session-filter")
    with guarded.raw().plain(ROOT_POLICY, ROOT_KEY) as peer:
        asked = Described(descriptor, f"a session: {descriptor}")
        peer.send(attach_of("sessions", RECEIVER, 50, name="mine", filter={name: asked}))
        answer = peer.wait(Attach, lambda each: each.name == "mine")

        # Answered in kind: the SDK for Go takes nothing else.
        assert answer.source.value[7] == {name: asked}
        held = {"session-id": asked.value}
        assert peer.manage("sessions", "get-session-state", held)[0] == 200


def test_a_request_may_name_the_link_of_its_session_instead(guarded: Guarded) -> None:
    name, wanted = Symbol("com.microsoft:session-filter"), "a session by its link"
    body = {"receiver-settle-mode": 1, "sequence-numbers": Array(values.LONG, [1])}
    with guarded.raw().plain(ROOT_POLICY, ROOT_KEY) as peer:
        peer.send(attach_of("sessions", RECEIVER, 50, name="mine", filter={name: wanted}))
        peer.wait(Attach, lambda each: each.name == "mine")

        def asked(link: str) -> str:
            operation, properties = "receive-by-sequence-number", {"associated-link-name": link}
            return peer.manage("sessions", operation, body, **properties)[1]

        # As the SDK for Go receives deferred messages of a session.
        assert asked("mine") == "com.microsoft:message-not-found"
        assert asked("other") == "amqp:not-allowed"


def test_a_session_that_was_accepted_again_is_its_new_links(guarded: Guarded) -> None:
    name, body = Symbol("com.microsoft:session-filter"), {"session-id": "a"}
    with guarded.administration() as administration:
        administration.create_queue("short", requires_session=True, lock_duration="PT5S")
    with guarded.raw().plain(ROOT_POLICY, ROOT_KEY) as peer:

        def accept(link: str, handle: int) -> None:
            peer.send(attach_of("short", RECEIVER, handle, name=link, filter={name: "a"}))
            peer.wait(Attach, lambda each: each.name == link)

        def renewed(**properties: Any) -> int:
            return peer.manage("short", "renew-session-lock", body, **properties)[0]

        accept("old", 50)
        time.sleep(5.3)
        accept("new", 51)

        assert renewed() == 200
        assert renewed(**{"associated-link-name": "new"}) == 200
        assert renewed(**{"associated-link-name": "old"}) == 410


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x00Su\xa0\xff", b"\xff" * 9])
def test_a_batch_that_is_none_is_refused_and_the_link_goes_on(
    guarded: Guarded, payload: bytes
) -> None:
    with guarded.raw().plain(ROOT_POLICY, ROOT_KEY) as peer:
        assert peer.attach("bills", SENDER) is None
        refused = peer.transfer("bills", payload, message_format=sections.BATCH_FORMAT)
        assert isinstance(refused, Rejected)
        assert refused.error.condition == "com.microsoft:argument-error"
        assert peer.manage("bills", "peek-message", PEEK)[0] == 204


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [(Modified(), 1), (Modified(delivery_failed=True), 1), (Released(), 0)],
)
def test_what_is_given_back_counts_unless_it_is_released(
    guarded: Guarded, outcome: Any, counted: int
) -> None:
    with guarded.raw().plain(ROOT_POLICY, ROOT_KEY) as peer:
        assert peer.attach("bills", SENDER) is None
        assert peer.attach("bills", RECEIVER) is None
        assert isinstance(peer.transfer("bills", message()), Accepted)
        peer.flow("bills", 2)
        first = peer.wait(Transfer).delivery_id or 0
        peer.send(Disposition(RECEIVER, first, first, False, outcome))
        peer.frames.clear()
        second = peer.wait(Transfer, lambda each: each.delivery_id != first).delivery_id or 0

        browsed = peer.manage("bills", "peek-message", PEEK)[2]["messages"]
        found = sections.decode(browsed[0]["message"])
        peer.send(Disposition(RECEIVER, second, second, False, Accepted()))
        peer.wait(Disposition, lambda each: each.first == second)
        assert found.header is not None
        assert (found.header.delivery_count or 0) == counted


def attach_some(chance: random.Random, raw: RawAmqp) -> dict[int, str]:
    """Attach links of both directions; return the addresses of those that send, by handle."""
    filter_ = Symbol("com.microsoft:session-filter")
    senders = {}
    for handle in range(8):
        given: dict[str, Any] = {"name": f"{handle}"}
        if handle >= 5:
            role, address = RECEIVER, chance.choice(ADDRESSES)
            if chance.random() < 0.3 or address == "sessions":
                given["filter"] = {filter_: chance.choice(("a", None, 5, "x" * 300, "\0"))}
            if chance.random() < 0.3:
                timeout = chance.choice((5, -1, 2**31 - 1, "x", None, True, Uint(2**32 - 1)))
                given["properties"] = {Symbol("com.microsoft:timeout"): timeout}
        else:
            role, address = SENDER, chance.choice(SENDABLE)
            senders[handle] = address
        made = attach_of(address, role, handle, **given)
        if address == "coordinator":
            made.target = Coordinator()
        raw.send(made)
        if role is RECEIVER:
            raw.send(flow_of(handle, chance.choice((1, 100, 2**32 - 1))))
    return senders


def test_random_sequences_leave_no_traceback(guarded: Guarded) -> None:
    before = len(log_of(guarded))

    for round_ in range(ROUNDS):
        attempt(guarded, round_)
        said = log_of(guarded)[before:]
        assert "Traceback" not in said, f"round {round_}: {said[:6_000]}"

    with RawAmqp(guarded.amqp_address).plain(ROOT_POLICY, ROOT_KEY) as peer:
        assert peer.attach("bills", SENDER) is None
        assert isinstance(peer.transfer("bills", message()), Accepted)
        assert peer.said(Detach) == []
