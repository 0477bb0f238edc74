"""What the engine reports, in the order in which it happened."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from bendybus.amqp.performatives import Attach, Error, Open, TransactionalState

if TYPE_CHECKING:
    from bendybus.amqp.links import IncomingLink, Link, OutgoingDelivery, OutgoingLink
    from bendybus.amqp.session import Session


@dataclass(slots=True)
class Authenticating:
    """The peer chose a SASL mechanism: answer with `Connection.authenticate`."""

    mechanism: str
    response: bytes


@dataclass(slots=True)
class Opened:
    """The connection is open; it was answered."""

    open: Open


@dataclass(slots=True)
class Begun:
    """A session began; it was answered."""

    session: "Session"


@dataclass(slots=True)
class Attached:
    """The peer attaches a link: answer with `Link.accept` or `Link.refuse`."""

    link: "Link"
    attach: Attach


@dataclass(slots=True)
class CreditChanged:
    """The credit of an outgoing link changed, or it is to be drained.

    Or an incoming link lost some: the peer took deliveries back before they were whole.
    """

    link: "IncomingLink | OutgoingLink"


@dataclass(slots=True)
class WindowOpened:
    """The peer has opened the window of a session, and what waited for that is written."""

    session: "Session"


@dataclass(slots=True)
class Delivered:
    """A complete delivery arrived. The caller must settle it, unless it is settled already."""

    link: "IncomingLink"
    delivery_id: int
    tag: bytes
    message_format: int
    payload: bytes
    settled: bool
    # A TransactionalState; None: no transaction.
    state: TransactionalState | None = None
    # Larger than max-message-size: the payload was not kept.
    too_large: bool = False
    # `reserve` refused room for an incomplete delivery: the payload was not kept.
    no_room: bool = False


@dataclass(slots=True)
class Disposed:
    """The peer has decided on deliveries to it, or settled them."""

    session: "Session"
    deliveries: Sequence["OutgoingDelivery"]
    state: Any
    settled: bool


@dataclass(slots=True)
class Detached:
    """The peer detached a link; it was answered. `closed`: it will not be resumed."""

    link: "Link"
    closed: bool
    error: Error | None


@dataclass(slots=True)
class Ended:
    """The peer ended a session, and its links with it; it was answered."""

    session: "Session"
    error: Error | None
    links: Sequence["Link"]


@dataclass(slots=True)
class Closed:
    """The connection is closed: by the peer, or after a violation by it. The last event.

    `by_peer`: the peer sent a close. `links`: those that were attached.
    """

    error: Error | None
    by_peer: bool
    links: Sequence["Link"] = ()


Event: TypeAlias = (
    Authenticating
    | Opened
    | Begun
    | Attached
    | CreditChanged
    | WindowOpened
    | Delivered
    | Disposed
    | Detached
    | Ended
    | Closed
)
