"""Whatever frames come, in whatever order: no exception, bounded memory, bounded answers and work.

`make test` runs some hundred sequences. For ten minutes of them:

    BENDYBUS_FRAMES_FUZZ_ROUNDS=150000 python -m pytest -n0 tests/amqp/test_hostile_frames.py

A failure names its round, which alone decides the sequence: `attempt(round)` repeats it.
"""

import os
import random
from typing import Any, Final

import pytest

from bendybus.amqp import events, frames, sections
from bendybus.amqp.composites import Composite
from bendybus.amqp.connection import Connection, ConnectionSettings
from bendybus.amqp.links import IncomingLink, Link, OutgoingLink
from bendybus.amqp.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Coordinator,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Open,
    Received,
    Rejected,
    Released,
    SaslInit,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from tests.amqp.peers import framed
from tests.amqp.test_hostile_bytes import mutated

ROUNDS: Final = int(os.environ.get("BENDYBUS_FRAMES_FUZZ_ROUNDS", "300"))
PARTS: Final = 3
FRAMES_A_ROUND: Final = 60
SETTINGS: Final = ConnectionSettings(
    "server",
    max_frame_size=4_096,
    frame_bytes_taken=4_096,
    sessions_max=6,
    links_max=12,
    mechanisms=("ANONYMOUS", "PLAIN"),
)
PARTS_MAX: Final = 20_000
NUMBERS: Final = (
    0,
    0,
    0,
    1,
    1,
    2,
    3,
    5,
    11,
    12,
    255,
    5_000,
    2**31 - 1,
    2**31,
    2**32 - 2,
    2**32 - 1,
)
STATES: Final = (
    None, Accepted(), Released(), Rejected(), Rejected(Error("a:b", "c" * 900)), Received(1, 2),
    Modified(True, True, {"a": 1}), TransactionalState(b"x" * 40, Accepted()), 5, [1], "text",
    TransactionalState(b"1"), Error("a:b"),
)  # fmt: skip


class Driver:
    """Drives an engine as the listener does, and looks at what it holds."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.parts = 0
        self.engine = Connection(SETTINGS, reserve=self._reserve, release=self._release)
        self.links: list[Link] = []
        self.incoming: list[tuple[Any, int]] = []
        self.closed = 0
        self.read = self.written = 0
        # What the peer said that it takes.
        self.frame_bytes_max = frames.MAX_FRAME_SIZE_MIN

    def _reserve(self, size_bytes: int) -> bool:
        if self.parts + size_bytes > PARTS_MAX:
            return False
        self.parts += size_bytes
        return True

    def _release(self, size_bytes: int) -> None:
        self.parts -= size_bytes
        assert self.parts >= 0

    def feed(self, data: bytes) -> None:
        assert not self.engine.is_closed or not self.engine.receive(data)
        self.read += len(data)
        found = self.engine.receive(data)
        while found:
            again = False
            for event in found:
                assert not self.closed, "nothing follows the end"
                again |= self._take(event)
            found = self.engine.receive(b"") if again else []
        self._act()
        self._check()

    def _take(self, event: events.Event) -> bool:
        if isinstance(event, events.Authenticating):
            self.engine.authenticate(event.response != b"wrong")
            return True
        if isinstance(event, events.Closed):
            self.closed += 1
        elif isinstance(event, events.Opened):
            self.frame_bytes_max = min(event.open.max_frame_size, SETTINGS.max_frame_size)
        elif isinstance(event, events.Attached):
            self.links.append(event.link)
            if self.chance.random() < 0.8:
                self._answer(event.link)
        elif isinstance(event, events.Delivered):
            assert len(event.payload) <= PARTS_MAX
            self.incoming.append((event.link.session, event.delivery_id))
        elif isinstance(event, events.Disposed):
            for each in event.deliveries:
                if not event.settled and self.chance.random() < 0.7:
                    self.told(each.link.session, each.delivery_id, incoming=False)
        return False

    def told(self, session: Any, delivery_id: int, *, incoming: bool) -> None:
        state = self.chance.choice((Accepted(), Rejected(Error("a:b", "why " * 400)), Released()))
        session.settle(delivery_id, state, incoming=incoming)

    def _answer(self, link: Link) -> None:
        if self.chance.random() < 0.2:
            link.refuse(Error("amqp:not-found", "there is none " * self.chance.choice((1, 90))))
        else:
            link.accept(max_message_size=self.chance.choice((0, 100, 5_000)))
            if isinstance(link, IncomingLink):
                link.grant(self.chance.choice((1, 10, 1_000)))

    def _act(self) -> None:
        """Do what the listener may do at any time, also with what is gone."""
        chance = self.chance
        for link in self.links[-20:]:
            what = chance.random()
            if isinstance(link, OutgoingLink) and link.is_open and link.credit and what < 0.6:
                payload = b"x" * chance.choice((1, 300, 9_000))
                link.send(b"t" * 16, payload, settled=what < 0.1, context=b"token")
            elif what > 0.97:
                link.detach(Error("amqp:link:detach-forced", "why " * 300))
            elif what > 0.95 and link.state.value == "attaching":
                self._answer(link)
            elif what > 0.93 and isinstance(link, OutgoingLink) and link.drain:
                link.drained()
            elif what > 0.9 and isinstance(link, IncomingLink):
                link.grant(chance.choice((0, 5)))
        while self.incoming and chance.random() < 0.7:
            self.told(*self.incoming.pop(0), incoming=True)
        if chance.random() < 0.003:
            self.engine.close(Error("amqp:connection:forced", "why " * 300))

    def _check(self) -> None:
        engine, out = self.engine, self.engine.output()
        self.written += len(out)
        assert len(engine.sessions) <= SETTINGS.sessions_max
        held = [link for session in engine.sessions for link in session.links]
        assert engine.links == len(held) <= SETTINGS.links_max
        assert len(engine._reader._buffer) <= SETTINGS.max_frame_size + FEED_MAX
        assert self.parts == sum(
            len(link._parts) for link in held if isinstance(link, IncomingLink)
        )
        self._read_whole(out)

    def _read_whole(self, out: bytes) -> None:
        """Read what was written: whole frames, which the peer takes."""
        at = 0
        while at < len(out):
            if out[at : at + 4] == b"AMQP":
                at += 8
                continue
            size = int.from_bytes(out[at : at + 4], "big")
            assert 8 <= size <= self.frame_bytes_max, f"{size} bytes: {out[at : at + 60]!r}"
            if size > 8 and out[at + 5] == frames.AMQP:
                frames.performative(out[at + 8 : at + size])
            at += size
        assert at == len(out)


FEED_MAX: Final = 40_000


class Peer:
    """Writes frames that a client could write, and then some."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.delivery = 0

    def opening(self) -> list[bytes]:
        size = self.chance.choice((512, 512, 1_024, 65_536, 2**32 - 1))
        return [
            frames.SASL_HEADER,
            framed(SaslInit("ANONYMOUS", b""), kind=frames.SASL),
            frames.AMQP_HEADER,
            framed(Open("peer", max_frame_size=size)),
            framed(Begin(next_outgoing_id=0, incoming_window=50, outgoing_window=50)),
        ]

    def number(self) -> int:
        return self.chance.choice(NUMBERS)

    def handle(self) -> int:
        return self.chance.choice((0, 0, 1, 2, 3, 4, 11, 12, 2**32 - 1))

    def frame(self) -> bytes:
        chance = self.chance
        kinds = chance.choices(
            (self.attach, self.transfer, self.disposition, self.flow, self.detach, self.session),
            (4, 6, 5, 6, 2, 1),
        )
        made, payload = kinds[0]()
        channel = chance.choice((0, 0, 0, 0, 1, 2, 7))
        return framed(made, payload, channel=channel, kind=int(chance.random() < 0.002))

    def attach(self) -> tuple[Composite, bytes]:
        chance = self.chance
        node = chance.choice((None, Source(address="a" * chance.choice((1, 400, 2_000)))))
        target = chance.choice((Target(address="b"), Target(address="c" * 600), Coordinator(), 5))
        return Attach(
            name=chance.choice(("n", "name" * 40, "long" * 400)),
            handle=self.handle(),
            role=chance.random() < 0.5,
            snd_settle_mode=chance.randrange(3),
            rcv_settle_mode=chance.randrange(2),
            source=node,
            target=target,
            initial_delivery_count=self.number(),
            unsettled=chance.choice((None, {b"x": None})),
        ), b""

    def transfer(self) -> tuple[Composite, bytes]:
        chance = self.chance
        self.delivery = (self.delivery + chance.choice((1, 1, 1, 0, 2**31))) % 2**32
        tag = chance.choice((b"t", b"t" * 64, b"t" * 65, None, b""))
        return Transfer(
            handle=self.handle(),
            delivery_id=chance.choice((self.delivery, None)),
            delivery_tag=tag if chance.random() < 0.3 else b"t",
            message_format=chance.choice((0, 0x80013700, None)),
            settled=chance.choice((True, False, None)),
            more=chance.random() < 0.4,
            aborted=chance.random() < 0.1,
            state=chance.choice(STATES) if chance.random() < 0.2 else None,
        ), chance.choice((b"", b"x" * 100, b"x" * 3_000, sections.encode(sections.Message())))

    def disposition(self) -> tuple[Composite, bytes]:
        chance = self.chance
        return Disposition(
            role=chance.random() < 0.9,
            first=self.number(),
            last=chance.choice((None, self.number(), 2**31 - 2)),
            settled=chance.random() < 0.4,
            state=chance.choice(STATES),
        ), b""

    def flow(self) -> tuple[Composite, bytes]:
        chance = self.chance
        return Flow(
            next_incoming_id=chance.choice((None, self.number())),
            incoming_window=self.number(),
            next_outgoing_id=self.number(),
            outgoing_window=self.number(),
            handle=chance.choice((None, self.handle())),
            delivery_count=chance.choice((None, self.number())),
            link_credit=chance.choice((None, self.number())),
            drain=chance.random() < 0.3,
            echo=chance.random() < 0.4,
        ), b""

    def detach(self) -> tuple[Composite, bytes]:
        error = self.chance.choice((None, Error("a:b", "c"), 7, Accepted()))
        return Detach(self.handle(), self.chance.random() < 0.5, error), b""

    def session(self) -> tuple[Composite, bytes]:
        kinds: list[Composite] = [
            End(self.chance.choice((None, Error("a:b")))),
            Begin(next_outgoing_id=self.number(), incoming_window=5, outgoing_window=5),
            Begin(next_outgoing_id=0, incoming_window=2**32 - 1, outgoing_window=5),
        ]
        if self.chance.random() < 0.1:
            kinds.append(Close())
            kinds.append(Open("again"))
        return self.chance.choice(kinds), b""


def attempt(round_: int) -> Driver:
    """Feed the frames of a round to an engine."""
    chance = random.Random(round_)
    driver, peer = Driver(chance), Peer(chance)
    for data in peer.opening():
        driver.feed(mutated(chance, data) if chance.random() < 0.01 else data)
    for _ in range(FRAMES_A_ROUND):
        if driver.engine.is_closed:
            break
        sent = [peer.frame() for _ in range(chance.choice((1, 1, 1, 5)))]
        data = b"".join(mutated(chance, e) if chance.random() < 0.01 else e for e in sent)
        if chance.random() < 0.1:
            at = chance.randrange(len(data))
            driver.feed(data[:at])
            data = data[at:]
        driver.feed(data)
    return driver


@pytest.mark.parametrize("part", range(PARTS))
def test_any_frames_are_answered_or_close_the_connection(part: int) -> None:
    for round_ in range(part, ROUNDS, PARTS):
        try:
            attempt(round_)
        except Exception as error:
            raise AssertionError(f"round {round_}") from error
