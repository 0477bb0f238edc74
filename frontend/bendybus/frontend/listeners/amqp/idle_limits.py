"""Detaches idle links and closes idle connections, as Service Bus does.

Only if it is configured, to test how a program handles that: otherwise idle links stay attached.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bendybus.amqp.links import IncomingLink, Link, OutgoingLink
from bendybus.amqp.performatives import Error
from bendybus.frontend.listeners.amqp.cbs import CbsLink
from bendybus.frontend.listeners.amqp.receiving import ReceivingLink
from bendybus.frontend.listeners.amqp.replies import ReplyLink
from bendybus.frontend.listeners.amqp.sending import SendingLink

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection


@dataclass(frozen=True, slots=True)
class IdleLimits:
    """How long links and connections may be idle. The defaults are those of Service Bus."""

    link_s: float = 600.0
    """Without a transfer or a settlement, on a link to an entity."""
    connection_s: float = 300.0
    """Without a link, except those for tokens and replies."""

    @property
    def check_s(self) -> float:
        """How often connections are checked, and so how late an idle one may be closed."""
        return min(self.link_s, self.connection_s) / 20


class IdleWatch:
    """Checks one connection regularly, so that messages need no timestamps."""

    def __init__(self, connection: "ClientConnection", limits: IdleLimits, now_s: float) -> None:
        self._connection = connection
        self._limits = limits
        # What was transferred over each link, and since when that has not changed.
        self._links: dict[Link, tuple[tuple[int, int], float]] = {}
        self._linked_s = now_s

    def check(self, now_s: float) -> None:
        """Detach the links that are idle, or close the connection."""
        links = self._connection.links()
        self._links = {link: self._since(link, now_s) for link in links if _may_be_idle(link)}
        for link, (_, since_s) in self._links.items():
            if now_s - since_s >= self._limits.link_s:
                text = f"nothing was transferred for {self._limits.link_s:g} s; attach again"
                self._connection.detach(link, Error("amqp:link:detach-forced", text))
        if any(not isinstance(link.context, (CbsLink, ReplyLink)) for link in links):
            self._linked_s = now_s
        elif now_s - self._linked_s >= self._limits.connection_s:
            text = f"there was no link for {self._limits.connection_s:g} s; connect again"
            self._connection.end(Error("amqp:connection:forced", text))

    def _since(self, link: Link, now_s: float) -> tuple[tuple[int, int], float]:
        assert isinstance(link, (IncomingLink, OutgoingLink)), link
        passed = (link.delivery_count, link.unsettled if isinstance(link, OutgoingLink) else 0)
        before = self._links.get(link)
        return before if before is not None and before[0] == passed else (passed, now_s)


def _may_be_idle(link: Link) -> bool:
    return link.is_open and isinstance(link.context, (SendingLink, ReceivingLink))
