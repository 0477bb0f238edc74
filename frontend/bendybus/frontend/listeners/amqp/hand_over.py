"""The end of a connection whose front end stops: its client goes on through another one.

    receivers get no more messages, and what they have is settled ──► senders get no more credit ──►
    what is under way is answered, and a moment passes without input ──► sessions are given up ──►
    the output ends ──► the client ends its own

No frame says so: a client that is told of a detach, or of a close, reports it to its program, or
never attaches again; a connection that is lost is what every client prepares for. Two SDKs are
told: their links are detached and their connection is closed by force. The one for JavaScript waits
for answers to what it sent on a connection that is lost, and repeats a receive only if it knows why
that ended; the one for Go settles a message of a detached link through $management, and one of a
lost connection never. A third, for Python, fails a receive that waits if too little of its time is
left to connect again: its connection ends when there is enough; see `receive_calls`. Input after
the last answer is dropped, and a client reads every answer before the end: so it knows what was
done, and may repeat the rest. The steps that were tried, and what each client did:
docs/internals/decisions/20261128-a-connection-ends-without-a-word.md.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from bendybus.amqp.links import Link, OutgoingLink
from bendybus.amqp.performatives import Error
from bendybus.frontend.listeners.amqp.receive_calls import RECEIVES_BY_CALL
from bendybus.frontend.listeners.amqp.receiving import ReceivingLink
from bendybus.frontend.listeners.amqp.sending import SendingLink
from bendybus.frontend.listeners.amqp.stage import Stage

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection

# What was on its way to the bus when its credit ended arrives, and what programs work on is
# settled: no SDK repeats every settlement by itself. Nothing may come for QUIET_S; a client that
# goes on has MOMENT_S, and as long again until nothing of it is under way: then a program that asks
# again and again has its answer, and has not asked again. Together about the second after which the
# SDK for JavaScript fails a send without credit.
QUIET_S: Final = 0.1
MOMENT_S: Final = 0.4
# A program that settles what it has, one message after another, goes on until it has nothing, or
# has settled nothing for so long: the SDK for Java fails a settlement that a lost connection leaves
# without an answer, or waits for minutes. A receive of it that has some messages waits for a second
# for more before the program gets them: an end at about that time would meet their settlements.
SETTLES_S: Final = 3.0
# For the SDK for Python, which settles what it holds after the end, too.
SETTLES_LATER_S: Final = 0.25
# That SDK collects messages for 0.2 s after the first of a receive, and drops what it has if the
# connection ends meanwhile: what was deleted as it was delivered would be lost.
COLLECTS_S: Final = 0.35
# How long a receive of that SDK is waited for without knowing whether it will end in time.
GUESS_S: Final = 5.0
LOOK_S: Final = 0.05
# Operations under way are answered within this, however late it is: an SDK repeats those without an
# answer, and a cancellation that was done fails then.
ANSWERS_S: Final = 0.75
# The product of Vert.x. If credit is taken back while transfers are on their way, proton-j counts a
# credit below zero, and SmallRye's connector, which requests as many messages, fails for good.
KEEPS_CREDIT: Final = "vertx-proton"
# The products that the SDKs for JavaScript and Go name in their open.
TOLD: Final = frozenset({"MSJSClient", "MSGolangClient"})
_TEXT: Final = "the front end stops; connect again"
DETACHED: Final = Error("amqp:link:detach-forced", _TEXT)
CLOSED: Final = Error("amqp:connection:forced", _TEXT)
# How long it may take to end the sessions of links that were detached: without an answer to that it
# waits for up to a minute before it connects again.
ENDS_S: Final = 0.25
# A client may take so long to end its side of the connection: what it has not read when the process
# ends may never reach it.
GOODBYE_S: Final = 1.0
# The time that a hand-over may take beyond `until_s`, with 0.1 s to give up sessions.
MORE_S: Final = MOMENT_S + ANSWERS_S + ENDS_S + GOODBYE_S + 0.1


async def hand_over(connection: "ClientConnection", until_s: float) -> None:
    """Finish what is under way, then cut: the client connects to another front end.

    `until_s`: how long answers are waited for, on the loop's clock; the last ones for ANSWERS_S at
    least.
    """
    loop = asyncio.get_running_loop()
    if connection.product == RECEIVES_BY_CALL:
        await _between_receives(connection, until_s)
        # A message that came at the last moment can be settled, as one that came before.
        until_s = max(until_s, loop.time() + MOMENT_S)
    connection.stage = Stage.RECEIVERS_FINISHED
    for link in connection.links():
        if isinstance(link.context, ReceivingLink):
            link.context.finish()
    connection.write_soon()
    settles_s = SETTLES_LATER_S if connection.product == RECEIVES_BY_CALL else SETTLES_S
    if connection.product not in TOLD:
        # Sends go on meanwhile.
        await _settled(connection, until_s, settles_s)
    connection.stage = Stage.SENDERS_FINISHED
    for link in connection.links():
        # Not those for requests: what waits for credit there is lost with the connection.
        if isinstance(link.context, SendingLink):
            link.context.finish(takes_back=connection.product != KEEPS_CREDIT)
    connection.write_soon()
    began_s = loop.time()
    moment_s = min(until_s, began_s + MOMENT_S)
    while not connection.gone and (now_s := loop.time()) < moment_s:
        quiet_s = min(connection.quiet_s, now_s - began_s)
        if quiet_s >= QUIET_S:
            break
        await asyncio.sleep(min(QUIET_S - quiet_s, moment_s - now_s))
    if connection.product not in TOLD:
        # Messages that partitions were giving when receivers finished have come meanwhile.
        await _settled(connection, until_s, settles_s)
    await _delivered(connection, until_s)
    await _idle(connection, min(until_s, loop.time() + MOMENT_S))
    connection.hushed = True
    # A program that keeps messages may have used up the time.
    await _idle(connection, max(until_s, loop.time() + ANSWERS_S))
    # STRICTLY TOGETHER with the last look at what is under way: what is read from now on is not
    # done, so that the client, which hears nothing of it, repeats it safely.
    connection.stage = Stage.HANDED_OVER
    links = connection.links()
    held = [connection.drop(link) for link in links]
    # STRICTLY BEFORE the end: the client asks for its sessions again at once.
    await asyncio.gather(*(each for each in held if each is not None))
    if connection.product in TOLD:
        await _tell(connection, links)
    else:
        connection.cut()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GOODBYE_S):
            while not connection.gone:
                await connection.changed()


async def _between_receives(connection: "ClientConnection", until_s: float) -> None:
    """Wait until each receive under way has time to connect again, or it is too late for that.

    The next receive has; so whether this one has is guessed only if the next may come too late.
    What comes meanwhile is received. A program that holds messages waits for none.
    """
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while not connection.gone and not connection.unsettled and (now_s := loop.time()) < until_s:
        receives = [
            link.context.calls
            for link in connection.links()
            if isinstance(link, OutgoingLink)
            and link.credit
            and isinstance(link.context, ReceivingLink)
        ]
        guess = until_s - now_s < GUESS_S
        if all(each is None or each.has_time(now_s, began_s, guess=guess) for each in receives):
            return
        await asyncio.sleep(LOOK_S)


async def _settled(connection: "ClientConnection", until_s: float, most_s: float) -> None:
    """Wait until a client that goes on settling has nothing left, or it is too late for that."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while connection.unsettled and not connection.gone and loop.time() < until_s:
        left_s = max(began_s, connection.settled_s) + most_s - loop.time()
        if left_s <= 0:
            return
        await asyncio.sleep(min(left_s, QUIET_S))


async def _delivered(connection: "ClientConnection", until_s: float) -> None:
    """Wait until the program has what was delivered, or it is too late for that.

    What is being deleted is sent first.
    """
    loop = asyncio.get_running_loop()
    collects_s = COLLECTS_S if connection.product == RECEIVES_BY_CALL else 0.0
    while not connection.gone and loop.time() < until_s:
        handing = any(
            isinstance(link.context, ReceivingLink) and link.context.handing
            for link in connection.links()
        )
        if not handing and time.monotonic() >= connection.delivered_s + collects_s:
            return
        await asyncio.sleep(LOOK_S)


async def _idle(connection: "ClientConnection", until_s: float) -> None:
    """Wait until nothing of a connection is under way, or it is too late for that."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(until_s):
            while connection.busy:
                await connection.changed()


async def _tell(connection: "ClientConnection", links: Sequence[Link]) -> None:
    """Detach the links, let the client end its sessions, then close."""
    connection.hushed = False
    connection.reading.go_on()
    for link in links:
        link.detach(DETACHED)
    connection.write_soon()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ENDS_S):
            while not connection.gone and connection.sessions:
                await connection.changed()
    connection.end(CLOSED)
