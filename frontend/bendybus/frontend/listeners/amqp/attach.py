"""Attaching: what the address of a link names, whether the client may use it, and what it becomes.

    node                    the client sends             the client receives
    an entity               SendingLink                  ReceivingLink, SessionReceivingLink
    $cbs                    CbsLink                      ReplyLink
    …/$management           ManagementLink               ReplyLink
    target: coordinator     CoordinatorLink

Rights are checked here, and again whenever a token ends or policies change (`client_connection`).
"""

from typing import TYPE_CHECKING, Final

from bendybus.amqp.links import SND_SETTLED, IncomingLink, Link, OutgoingLink
from bendybus.amqp.performatives import Attach, Coordinator, Error, Source, Target
from bendybus.amqp.values import Symbol
from bendybus.domain import errors, message_access
from bendybus.domain.errors import BusError
from bendybus.domain.message_access import Access
from bendybus.domain.message_state import ReceiveMode
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.quota.bounds import (
    CBS_BYTES_MAX,
    COORDINATOR_BYTES_MAX,
    MANAGEMENT_BYTES_MAX,
)
from bendybus.frontend.core.receive import Source as ReceiveSource
from bendybus.frontend.listeners import request_values
from bendybus.frontend.listeners.amqp import addresses, conditions
from bendybus.frontend.listeners.amqp.addresses import Address, Node
from bendybus.frontend.listeners.amqp.cbs import CbsLink
from bendybus.frontend.listeners.amqp.coordinator import CoordinatorLink
from bendybus.frontend.listeners.amqp.management import ManagementLink
from bendybus.frontend.listeners.amqp.receiving import MESSAGE_BYTES_MAX, ReceivingLink
from bendybus.frontend.listeners.amqp.replies import ReplyLink
from bendybus.frontend.listeners.amqp.request_links import RequestLink
from bendybus.frontend.listeners.amqp.sending import ENVELOPE_BYTES, SendingLink
from bendybus.frontend.listeners.amqp.session_receiving import SESSION_FILTER, SessionReceivingLink
from bendybus.frontend.security.authenticator import Operation

if TYPE_CHECKING:
    from bendybus.frontend.listeners.amqp.client_connection import ClientConnection

# A symbol, as all names of link properties: the SDK for .NET finds nothing under a string.
_BATCH_SIZE: Final = Symbol("com.microsoft:max-message-batch-size")
_COPY: Final = "copy"
_SHARED: Final = "shared"


def attach(connection: "ClientConnection", link: Link, asked: Attach) -> Error | None:
    """Accept a link, or refuse it and return why."""
    text = path = ""
    try:
        if isinstance(asked.target, Coordinator) and isinstance(link, IncomingLink):
            _attach_coordinator(connection, link)
            return None
        terminus = asked.target if isinstance(link, IncomingLink) else asked.source
        if not isinstance(terminus, (Source, Target)):
            raise errors.InvalidArgument("address", "the link must have a source and a target.")
        _check_terminus(terminus)
        address = addresses.parse(terminus.address)
        text, path = address.text, address.path
        if address.node is Node.MANAGEMENT:
            # A client without any right there learns nothing; each request needs its own right.
            node = addresses.management_of(path)
            connection.claims.check(Operation.DESCRIBE_PARTITIONS, node)
            request_values.entity_and_sub_queue(path)
        if isinstance(link, OutgoingLink):
            _attach_outgoing(connection, link, address)
        else:
            assert isinstance(link, IncomingLink), link
            _attach_incoming(connection, link, address)
    except BusError as error:
        connection.front_end.metrics.refused(path, error)
        refused = conditions.of(error, text)
        link.refuse(refused)
        return refused
    return None


def _attach_coordinator(connection: "ClientConnection", link: IncomingLink) -> None:
    made = CoordinatorLink(connection, link)
    connection.coordinators.add(made)
    link.context = made
    link.accept(max_message_size=COORDINATOR_BYTES_MAX)
    made.begin()


def _attach_incoming(connection: "ClientConnection", link: IncomingLink, address: Address) -> None:
    if address.node is Node.ENTITY:
        _attach_sender(connection, link, address.path)
        return
    made: RequestLink
    if address.node is Node.CBS:
        made, most = CbsLink(connection, link, address.path), CBS_BYTES_MAX
    else:
        made, most = ManagementLink(connection, link, address.path), MANAGEMENT_BYTES_MAX
    link.context = made
    link.accept(max_message_size=most)
    made.begin()


def _attach_sender(connection: "ClientConnection", link: IncomingLink, path: str) -> None:
    name, sub_queue = request_values.entity_and_sub_queue(path)
    connection.claims.check(Operation.SEND, path)
    entity = connection.front_end.directory.find(name)
    message_access.check(entity, Access.SEND)
    if sub_queue is not SubQueue.MAIN:
        raise errors.InvalidOperation(f"{path!r}: messages cannot be sent to a sub-queue.")
    message_bytes, batch_bytes = connection.front_end.send_limits(name)
    most = max(message_bytes, batch_bytes)
    for each in connection.coordinators:
        each.attached(link, entity)
    connection.quota.expect(most)
    made = SendingLink(connection, link, path, name, (message_bytes, batch_bytes))
    link.context = made
    # The service answers with the smaller limit of both sides; the entity's limit decides here.
    asked = link.attach.max_message_size or most
    link.accept(max_message_size=min(asked, most), properties={_BATCH_SIZE: batch_bytes})
    link.max_message_size = most + ENVELOPE_BYTES
    made.begin()


def _attach_outgoing(connection: "ClientConnection", link: OutgoingLink, address: Address) -> None:
    if address.node is Node.ENTITY:
        _attach_receiver(connection, link, address.path)
        return
    reply = ReplyLink(connection, link, address.path)
    connection.replies.links.add(reply)
    link.context = reply
    link.accept(max_message_size=MESSAGE_BYTES_MAX)


def _attach_receiver(connection: "ClientConnection", link: OutgoingLink, path: str) -> None:
    name, sub_queue = request_values.entity_and_sub_queue(path)
    connection.claims.check(Operation.RECEIVE, path)
    deletes = link.attach.snd_settle_mode == SND_SETTLED
    mode = ReceiveMode.RECEIVE_AND_DELETE if deletes else ReceiveMode.PEEK_LOCK
    source = ReceiveSource(name, sub_queue, mode)
    asked = link.attach.source
    filters = asked.filter or {}
    _check_source(asked, path)
    entity = connection.front_end.directory.find(name)
    for each in connection.coordinators:
        each.attached(link, entity)
    if SESSION_FILTER in filters:
        session = SessionReceivingLink(connection, link, path, source, filters[SESSION_FILTER])
        link.context = session
        session.accept()
        return
    made, front_end = ReceivingLink(connection, link, path), connection.front_end
    link.context = made
    receiver = front_end.receives.open(source, made.hand, made.fail, owner=connection.flow.owner)
    link.accept(max_message_size=MESSAGE_BYTES_MAX)
    made.begin(receiver)


def _check_terminus(terminus: Source | Target) -> None:
    """Raise InvalidOperation for what JMS asks for and nothing here has an address for."""
    if terminus.dynamic:
        raise errors.InvalidOperation(
            "temporary queues and topics (a dynamic address) cannot be created over AMQP. Create a "
            "queue with an administration client; autoDeleteOnIdle deletes it when it is not used."
        )
    if terminus.address is None and isinstance(terminus, Target):
        raise errors.InvalidOperation(
            "a sender without an address, which sends each message to another destination, is not "
            "supported. Create a sender or producer for each queue or topic."
        )


def _check_source(asked: Source, path: str) -> None:
    """Raise InvalidOperation for what would have to select or copy messages.

    A client that gets other messages than it asked for would take them from others. The SDK for
    .NET tells the refusal of a session that others may lock, too, by what follows the last quote.
    """
    for name in asked.filter or ():
        if name != SESSION_FILTER:
            raise errors.InvalidOperation(
                f"the link to '{path}' contains invalid filter type {name!s:.80}: only "
                f"{SESSION_FILTER} is applied, which locks a session for one receiver."
            )
    copies = asked.distribution_mode == _COPY
    if (copies and asked.durable) or _SHARED in (asked.capabilities or ()):
        raise errors.InvalidOperation(
            f"{path!r}: durable and shared subscriptions of JMS are not created over AMQP. Create "
            "a subscription with an administration client, and receive from the queue "
            "TOPIC/Subscriptions/NAME."
        )
    if copies:
        raise errors.InvalidOperation(
            f"{path!r}: messages cannot be browsed on a link. Send com.microsoft:peek-message to "
            "its $management."
        )
