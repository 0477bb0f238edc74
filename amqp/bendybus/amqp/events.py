"""What the engine reports, in the order in which it happened."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from bendybus.amqp.performatives import Attach, Error, Open

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
    """The credit of an outgoing link changed, or it is to be drained."""

    link: "OutgoingLink"


@dataclass(slots=True)
class Delivered:
    """A delivery came, whole. `link` must answer it unless it is settled."""

    link: "IncomingLink"
    delivery_id: int
    tag: bytes
    message_format: int
    payload: bytes
    settled: bool
    # Decoded, such as a TransactionalState; None: none.
    state: Any = None
    # Larger than the link takes, so it was not kept.
    too_large: bool = False
    # There was no room to keep its parts until it was complete.
    no_room: bool = False


@dataclass(slots=True)
class Disposed:
    """The peer says what became of deliveries to it."""

    session: "Session"
    deliveries: Sequence["OutgoingDelivery"]
    state: Any
    settled: bool


@dataclass(slots=True)
class Detached:
    """A link is detached by the peer; it was answered. `closed`: for good."""

    link: "Link"
    closed: bool
    error: Error | None


@dataclass(slots=True)
class Ended:
    """A session was ended by the peer, and its links with it; it was answered."""

    session: "Session"
    error: Error | None
    links: Sequence["Link"]


@dataclass(slots=True)
class Closed:
    """The connection is closed: by the peer, or for an error of its. Nothing follows.

    `by_peer`: it said so itself. `links`: those that were attached.
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
    | Delivered
    | Disposed
    | Detached
    | Ended
    | Closed
)
