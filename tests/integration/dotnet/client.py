"""A peer that writes the frames of Azure.Messaging.ServiceBus for .NET, which is not run here.

    SASL MSSBCBS, idle-time-out, one AMQP session a link, the audience (an absolute URI),
    addresses (its path), link properties, settle modes         Amqp/AmqpConnectionScope.cs
    cross-entity mode: one session, on which the coordinator is
    attached before anything else                               Amqp/AmqpConnectionScope.cs
    delivery tags of sends, the limit of a batch                Amqp/AmqpSender.cs
    lock tokens as delivery tags, outcomes, requests            Amqp/AmqpReceiver.cs
    operation, server-timeout, tracking-id                      Amqp/AmqpRequestMessage.cs
    status and condition of a reply                             Amqp/AmqpExceptionHelper.cs
    batches: properties of the first message around them        Amqp/AmqpMessageConverter.cs
    rules                                                       Amqp/AmqpRuleManager.cs
    a pair of links for requests: settled, with an empty tag,
    message ids "request1", reply-to, a credit of 50            RequestResponseAmqpLink.cs
    put-token with an expiration                                Cbs/AmqpCbsLink.cs
    declare and discharge                                       Transaction/Controller.cs
    windows, the answer to an attach                            AmqpSessionSettings.cs, AmqpLink.cs

Source: what is in Amqp/, in sdk/servicebus/Azure.Messaging.ServiceBus/src of
Azure/azure-sdk-for-net; the rest in Microsoft.Azure.Amqp/Amqp of Azure/azure-amqp. There the
connection is over TLS.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bendybus.amqp import sections
from bendybus.amqp.composites import Composite, as_written
from bendybus.amqp.links import SND_SETTLED
from bendybus.amqp.performatives import (
    Coordinator,
    Declare,
    Discharge,
    Source,
    Target,
    TransactionalState,
)
from bendybus.amqp.sections import Message, Properties
from bendybus.amqp.values import Symbol, Timestamp, Uint
from tests.integration.dotnet.frames import (
    UNLIMITED,
    WINDOW,
    Frames,
    Link,
    Received,
    Requests,
    Session,
)
from tests.integration.raw_amqp import RECEIVER, SENDER

SESSION_FILTER: Final = Symbol("com.microsoft:session-filter")
_TIMEOUT_MS: Final = Uint(60_000)
_SECOND: Final = 1
_MANAGEMENT: Final = {
    Symbol("com.microsoft:timeout"): _TIMEOUT_MS,
    Symbol("com.microsoft:entity-type"): "entity-mgmt",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of $management."""

    status: Any
    condition: Any
    body: Any


class DotnetPeer:
    """A client of the SDK for .NET: `token` returns one for an audience."""

    def __init__(
        self, address: str, token: Callable[[str], str], *, cross_entity: bool = False
    ) -> None:
        self._frames = Frames(address)
        self._token = token
        self._requests: dict[str, Requests] = {}
        self._cross_entity = cross_entity
        self._shared: Session | None = None
        self._controller: Link | None = None

    def __enter__(self) -> "DotnetPeer":
        return self

    def __exit__(self, *_: object) -> None:
        self._frames.disconnect()

    # Clients of the SDK

    def sender(self, path: str) -> Link:
        """Open the link of a ServiceBusSender."""
        self._authorize(path)
        return self._frames.attach(
            self._session_of_a_link(),
            f"{self._frames.host}-1a2b3c4d;1:{uuid.uuid4()}",
            SENDER,
            Source(address=str(uuid.uuid4())),
            Target(address=f"/{path}"),
            properties={Symbol("com.microsoft:timeout"): _TIMEOUT_MS},
        )

    def receiver(
        self, path: str, *, deletes: bool = False, filters: dict[Any, Any] | None = None
    ) -> Link:
        """Open the link of a ServiceBusReceiver, with a filter that of a session receiver."""
        self._authorize(path)
        mode = {"snd_settle_mode": SND_SETTLED} if deletes else {"rcv_settle_mode": _SECOND}
        return self._frames.attach(
            self._session_of_a_link(),
            f"{self._frames.host}-1a2b3c4d;1:{uuid.uuid4()}:source(address:/{path},filter-set:[])",
            RECEIVER,
            Source(address=f"/{path}", filter=filters or {}),
            Target(address=str(uuid.uuid4())),
            **mode,
        )

    def session_receiver(self, path: str, session_id: str | None) -> Link:
        """Accept a session, or the next one with None."""
        return self.receiver(path, filters={SESSION_FILTER: session_id})

    def manage(
        self, path: str, operation: str, body: Any, link: Link | None = None, **options: Any
    ) -> Reply:
        """Ask $management of an entity, on behalf of a link. `txn_id`: in a transaction."""
        node = f"{path}/$management"
        if node not in self._requests:
            session = self._frames.begin(WINDOW)
            self._authorize(node)
            self._requests[node] = Requests(self._frames, session, node, _MANAGEMENT)
        named = {} if link is None else {"associated-link-name": link.name}
        asked = {
            "operation": f"com.microsoft:{operation}",
            "com.microsoft:server-timeout": _TIMEOUT_MS,
            "com.microsoft:tracking-id": str(uuid.uuid4()),
            **named,
        }
        reply = self._requests[node].request(asked, body, **options)
        found = reply.application_properties
        return Reply(found["statusCode"], found.get("errorCondition"), reply.value)

    def send(
        self,
        link: Link,
        *messages: Message,
        txn_id: bytes | None = None,
    ) -> Any:
        """Send a message, or several as a batch; return the outcome."""
        payload, message_format = sections.encode(messages[0]), 0
        if len(messages) > 1:
            payload, message_format = _batch(messages), sections.BATCH_FORMAT
        state = None if txn_id is None else TransactionalState(txn_id)
        tag = next(link.tags).to_bytes(4, "little")
        number = self._frames.transfer(
            link, payload, tag=tag, message_format=message_format, state=state, batchable=True
        )
        return self._frames.outcome(link.session, RECEIVER, number)

    def receive(self, link: Link, count: int = 1) -> list[Received]:
        """Receive so many messages, with credit for them."""
        self._frames.flow(link, count)
        return [self._frames.delivery(link) for _ in range(count)]

    def dispose(self, found: Received, outcome: Composite, txn_id: bytes | None = None) -> Any:
        """Settle a message; return the outcome that the bus confirms."""
        state = outcome if txn_id is None else TransactionalState(txn_id, as_written(outcome))
        return self._frames.dispose(found, state)

    def drain(self, link: Link) -> None:
        """End the credit of a link, as at the end of a receive that found nothing."""
        self._frames.flow(link, 1, drain=True)
        self._frames.drained(link)

    def close(self, link: Link) -> None:
        """Close a link: its session ends first, and the link is not detached."""
        self._frames.end(link.session)

    def declare(self) -> bytes:
        """Declare a transaction; return its id."""
        if self._controller is None:
            self._controller = self._open_controller(self._frames.begin(UNLIMITED))
        return bytes(self._command(Declare()).txn_id)

    def discharge(self, txn_id: bytes, *, fail: bool = False) -> Any:
        """Commit a transaction, or with `fail` roll it back; return the outcome."""
        return self._command(Discharge(txn_id, fail))

    # Inside

    def _session_of_a_link(self) -> Session:
        if not self._cross_entity:
            return self._frames.begin(UNLIMITED)
        if self._shared is None:
            self._shared = self._frames.begin(UNLIMITED)
            self._controller = self._open_controller(self._shared)
        return self._shared

    def _open_controller(self, session: Session) -> Link:
        name = uuid.uuid4().hex
        source = Source(address=name, distribution_mode="move")
        return self._frames.attach(session, name, SENDER, source, Coordinator())

    def _command(self, asked: Composite) -> Any:
        link = self._controller
        assert link is not None
        payload = sections.encode(Message(value=as_written(asked), has_value=True))
        number = self._frames.transfer(link, payload, tag=next(link.tags).to_bytes(8, "little"))
        return self._frames.outcome(link.session, RECEIVER, number)

    def _authorize(self, path: str) -> None:
        if "$cbs" not in self._requests:
            properties = {Symbol("com.microsoft:timeout"): _TIMEOUT_MS}
            self._requests["$cbs"] = Requests(
                self._frames, self._frames.begin(WINDOW), "$cbs", properties
            )
        audience = f"amqps://{self._frames.host}/{path}"
        asked = {
            "operation": "put-token",
            "type": "servicebus.windows.net:sastoken",
            "name": audience,
            "expiration": Timestamp(int((time.time() + 600) * 1_000)),
        }
        reply = self._requests["$cbs"].request(asked, self._token(audience))
        assert reply.application_properties["status-code"] == 202, reply


def _batch(messages: Sequence[Message]) -> bytes:
    first = messages[0]
    assert first.properties is not None
    around = Properties(message_id=first.properties.message_id, group_id=first.properties.group_id)
    annotations = dict(first.message_annotations or {})
    payloads = [sections.encode(each) for each in messages]
    return sections.encode(
        Message(properties=around, message_annotations=annotations or None, data=payloads)
    )
