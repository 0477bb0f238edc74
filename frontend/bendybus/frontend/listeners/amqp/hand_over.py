"""The end of a connection whose front end stops: its client goes on through another one.

    no more credit ──► what is under way is answered ──► links are detached ──► the client may end
    their sessions ──► the connection is closed by force ──► the client answers that

What is read after the last answer is not done, and a client reads every answer before its end: so
it knows of all that was done, and may repeat the rest.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from bendybus.amqp.performatives import Error
from bendybus.frontend.listeners.amqp.receiving import ReceivingLink
from bendybus.frontend.listeners.amqp.request_links import RequestLink
from bendybus.frontend.listeners.amqp.sending import SendingLink

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection

_TEXT: Final = "the front end stops; connect again"
DETACHED: Final = Error("amqp:link:detach-forced", _TEXT)
CLOSED: Final = Error("amqp:connection:forced", _TEXT)
# How long a client may take to end the sessions of links that were detached. The SDK for JavaScript
# does so, and without an answer waits for up to a minute before it connects again.
ENDS_S: Final = 0.25
# A client may take so long to answer the end of its connection: what it has not read when the
# process ends may never reach it.
GOODBYE_S: Final = 1.0


async def hand_over(connection: "ClientConnection", until_s: float) -> None:
    """Finish what is under way, then close: the client connects to another front end.

    `until_s`: how long answers are waited for, on the loop's clock.
    """
    for link in connection.links():
        if isinstance(link.context, (SendingLink, ReceivingLink, RequestLink)):
            link.context.finish()
    connection.write_soon()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(until_s):
            while connection.busy:
                await connection.changed()
    # STRICTLY TOGETHER with the last look at what is under way: what is read from now on is not
    # done, so that the client, which hears nothing of it, repeats it safely.
    connection.handed_over = True
    dropped = [(link, connection.drop(link)) for link in connection.links()]
    await asyncio.gather(
        *(connection.detach_dropped(link, DETACHED, held) for link, held in dropped)
    )
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ENDS_S):
            while not connection.gone and connection.sessions:
                await connection.changed()
    connection.end(CLOSED)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GOODBYE_S):
            while not connection.gone:
                await connection.changed()
