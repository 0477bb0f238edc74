"""Opens many hostile AMQP connections at once: `python -m tests.integration.amqp_attack`.

Each does one thing that no good client does, and comes back when it was thrown out. Prints a line
when all have been there once, and goes on until its input ends.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from bendybus.amqp import frames, sections
from bendybus.amqp.composites import Composite
from bendybus.amqp.performatives import Begin, Detach, End, Flow, Open, SaslInit, Transfer
from bendybus.amqp.sections import Message, Properties
from tests.amqp.peers import framed, message
from tests.integration.raw_amqp import RECEIVER, SENDER, attach_of, flow_of

BACK_S: Final = 1.0
CHUNK: Final = 16 * 1024
MB: Final = 1024 * 1024


class Hostile:
    """One connection at a time. It reads nothing."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._token = token
        self.reader: Any = None
        self.writer: Any = None

    async def run(self, attack: "Attack", began: Callable[[], None]) -> None:
        """Attack until cancelled."""
        host, port = self._address.rsplit(":", 1)
        while True:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                self.reader, self.writer = await asyncio.open_connection(
                    host, int(port), limit=CHUNK
                )
                await attack(self)
                began()
                await asyncio.sleep(30)
            began()
            if self.writer is not None:
                self.writer.close()
            await asyncio.sleep(BACK_S)

    async def write(self, data: bytes, *, pieces: int = CHUNK) -> None:
        """Write bytes, as long as they are taken within some seconds."""
        for at in range(0, len(data), pieces):
            self.writer.write(data[at : at + pieces])
            async with asyncio.timeout(5):
                await self.writer.drain()

    async def send(self, *performatives: Composite, payload: bytes = b"") -> None:
        await self.write(b"".join(framed(each, payload) for each in performatives))

    async def opened(self) -> None:
        """Open a connection and a session, without a token."""
        sasl = framed(SaslInit("ANONYMOUS", b""), kind=frames.SASL)
        begin = Begin(next_outgoing_id=0, incoming_window=5_000, outgoing_window=5_000)
        await self.write(frames.SASL_HEADER + sasl + frames.AMQP_HEADER)
        await self.send(Open("hostile"), begin)

    async def with_token(self) -> None:
        """Open a connection and put the token."""
        await self.opened()
        await self.send(attach_of("$cbs", SENDER, 0, name="s"), attach_of("$cbs", RECEIVER, 1))
        given = {"operation": "put-token", "type": "jwt", "name": "amqp://x/"}
        put = Message(
            properties=Properties(message_id="1"),
            application_properties=given,
            value=self._token,
            has_value=True,
        )
        await self.send(flow_of(1, 100))
        await self.transfer(0, sections.encode(put))
        await asyncio.sleep(0.5)

    async def transfer(self, handle: int, payload: bytes, *, more: bool = False) -> None:
        sent = Transfer(
            handle=handle, delivery_id=0, delivery_tag=b"t", message_format=0, more=more
        )
        await self.send(sent, payload=payload)


Attack = Callable[[Hostile], Awaitable[None]]


async def silent(peer: Hostile) -> None:
    """Says nothing."""


async def half_opened(peer: Hostile) -> None:
    await peer.write(frames.SASL_HEADER)
    await peer.write(b"\x00\x00\x0f\xff\x02\x01\x00\x00" + b"\x00" * 4_000, pieces=1_000)


async def half_frame(peer: Hostile) -> None:
    await peer.opened()
    await peer.write(b"\x00\x00\xff\xff\x02\x00\x00\x00" + b"\x00" * 65_000)


async def byte_by_byte(peer: Hostile) -> None:
    await peer.opened()
    for _ in range(40):
        for byte in frames.EMPTY:
            await peer.write(bytes((byte,)))
            await asyncio.sleep(0.1)


async def many_links(peer: Hostile) -> None:
    await peer.opened()
    for handle in range(1_000):
        await peer.send(attach_of("$cbs", SENDER, handle, name=f"{handle}" + "n" * 900))


async def many_sessions(peer: Hostile) -> None:
    await peer.opened()
    begin = Begin(next_outgoing_id=0, incoming_window=5_000, outgoing_window=5_000)
    for channel in range(1, 255):
        await peer.write(framed(begin, channel=channel))


async def parts_of_tokens(peer: Hostile) -> None:
    await peer.opened()
    await peer.send(attach_of("$cbs", SENDER, 0, name="s"))
    for _ in range(600):
        await peer.transfer(0, b"x" * 60_000, more=True)


async def refused_links(peer: Hostile) -> None:
    await peer.opened()
    for _ in range(300):
        await peer.send(*[attach_of("orders", SENDER, 0, name="s"), Detach(0, True)] * 100)


async def sessions_that_come_and_go(peer: Hostile) -> None:
    await peer.opened()
    begin = Begin(next_outgoing_id=0, incoming_window=5_000, outgoing_window=5_000)
    for _ in range(300):
        await peer.send(*[End(), begin] * 200)


async def echoes(peer: Hostile) -> None:
    await peer.opened()
    flow = Flow(0, 5_000, 0, 5_000, echo=True)
    for _ in range(300):
        await peer.send(*[flow] * 300)


async def links_with_rights(peer: Hostile) -> None:
    await peer.with_token()
    for handle in range(2, 1_020):
        role = SENDER if handle % 2 else RECEIVER
        await peer.send(attach_of("orders", role, handle, name=f"{handle}" + "n" * 900))


async def parts_with_rights(peer: Hostile) -> None:
    await peer.with_token()
    await peer.send(attach_of("orders", SENDER, 2, name="o"))
    for _ in range(20):
        await peer.transfer(2, b"x" * 60_000, more=True)


async def credit_without_reading(peer: Hostile) -> None:
    await peer.with_token()
    await peer.send(attach_of("orders", RECEIVER, 2, snd_settle_mode=1), flow_of(2, 2**32 - 1))


async def requests_without_credit(peer: Hostile) -> None:
    await peer.with_token()
    node = "orders/$management"
    await peer.send(attach_of(node, SENDER, 2, name="m"), attach_of(node, RECEIVER, 3, name="r"))
    asked = Message(
        properties=Properties(message_id="1"),
        application_properties={"operation": "com.microsoft:peek-message"},
        value={"from-sequence-number": 1, "message-count": 100},
        has_value=True,
    )
    for _ in range(150):
        await peer.transfer(2, sections.encode(asked))


async def dispositions_and_flows(peer: Hostile) -> None:
    await peer.with_token()
    await peer.send(attach_of("orders", RECEIVER, 2), flow_of(2, 2_000))
    for _ in range(100):
        await peer.send(*[flow_of(2, 5, drain=True), flow_of(2, 2_000)] * 100)


async def sends_without_reading(peer: Hostile) -> None:
    await peer.with_token()
    await peer.send(attach_of("bills", SENDER, 2, name="o"))
    for _ in range(200):
        sent = Transfer(handle=2, delivery_id=0, delivery_tag=b"t", message_format=0)
        await peer.send(*[sent] * 5, payload=message(b"x" * 1_000))


STRANGERS: Final[Sequence[Attack]] = (
    silent,
    half_opened,
    half_frame,
    byte_by_byte,
    many_links,
    many_sessions,
    parts_of_tokens,
    refused_links,
    sessions_that_come_and_go,
    echoes,
)
HOLDERS: Final[Sequence[Attack]] = (
    links_with_rights,
    parts_with_rights,
    credit_without_reading,
    requests_without_credit,
    dispositions_and_flows,
    sends_without_reading,
)


async def attack(address: str, count: int, token: str, names: Sequence[str]) -> None:
    """Attack with so many connections, of these kinds in turn."""
    known = {each.__name__: each for each in (*STRANGERS, *HOLDERS)}
    seen: set[int] = set()
    there = asyncio.Event()

    def began(number: int) -> None:
        seen.add(number)
        if len(seen) == count:
            there.set()

    tasks = []
    for number in range(count):
        kind = known[names[number % len(names)]]
        made = Hostile(address, token).run(kind, lambda number=number: began(number))  # type: ignore[misc]
        tasks.append(asyncio.create_task(made))
        if number % 50 == 49:
            await asyncio.sleep(0.05)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            await there.wait()
    print(len(seen), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()


def main() -> None:
    """Attack as the JSON object in the first argument says."""
    asyncio.run(attack(**json.loads(sys.argv[1])))


if __name__ == "__main__":
    main()
