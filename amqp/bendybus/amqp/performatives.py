"""Frame bodies, delivery states and termini, as the specification names them.

Source: AMQP 1.0, parts 2 (transport), 3 (messaging), 4 (transactions) and 5 (security).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from bendybus.amqp.composites import (
    ANY,
    BINARY,
    BOOLEAN,
    MAP,
    RECEIVER_SETTLE_MODE,
    SENDER_SETTLE_MODE,
    STRING,
    SYMBOL,
    SYMBOLS,
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    Composite,
    described_as,
    field_of,
)

# Part 2: transport.


@described_as(0x1D, "amqp:error:list")
@dataclass(slots=True)
class Error(Composite):
    """Why something ended or was rejected."""

    # azure-servicebus reads all fields without checking how many there are.
    WRITTEN_WHOLE: ClassVar[bool] = True
    condition: str = field_of(SYMBOL, mandatory=True)
    description: str | None = field_of(STRING)
    info: dict[Any, Any] | None = field_of(MAP)


@described_as(0x10, "amqp:open:list")
@dataclass(slots=True)
class Open(Composite):
    """Opens a connection. `idle_time_out` is in ms; None: the peer need send nothing."""

    container_id: str = field_of(STRING, mandatory=True)
    hostname: str | None = field_of(STRING)
    max_frame_size: int = field_of(UINT, 0xFFFFFFFF)
    channel_max: int = field_of(USHORT, 0xFFFF)
    idle_time_out: int | None = field_of(UINT)
    outgoing_locales: tuple[str, ...] | None = field_of(SYMBOLS)
    incoming_locales: tuple[str, ...] | None = field_of(SYMBOLS)
    offered_capabilities: tuple[str, ...] | None = field_of(SYMBOLS)
    desired_capabilities: tuple[str, ...] | None = field_of(SYMBOLS)
    properties: dict[Any, Any] | None = field_of(MAP)


@described_as(0x11, "amqp:begin:list")
@dataclass(slots=True)
class Begin(Composite):
    """Begins a session."""

    remote_channel: int | None = field_of(USHORT)
    next_outgoing_id: int = field_of(UINT, mandatory=True)
    incoming_window: int = field_of(UINT, mandatory=True)
    outgoing_window: int = field_of(UINT, mandatory=True)
    handle_max: int = field_of(UINT, 0xFFFFFFFF)
    offered_capabilities: tuple[str, ...] | None = field_of(SYMBOLS)
    desired_capabilities: tuple[str, ...] | None = field_of(SYMBOLS)
    properties: dict[Any, Any] | None = field_of(MAP)


@described_as(0x12, "amqp:attach:list")
@dataclass(slots=True)
class Attach(Composite):
    """Attaches a link. `role`: True is that of the receiver."""

    name: str = field_of(STRING, mandatory=True)
    handle: int = field_of(UINT, mandatory=True)
    role: bool = field_of(BOOLEAN, mandatory=True)
    snd_settle_mode: int = field_of(SENDER_SETTLE_MODE, 2)
    rcv_settle_mode: int = field_of(RECEIVER_SETTLE_MODE, 0)
    source: Any = field_of(ANY)
    target: Any = field_of(ANY)
    unsettled: Any = field_of(ANY)
    incomplete_unsettled: bool = field_of(BOOLEAN, False)
    initial_delivery_count: int | None = field_of(UINT)
    max_message_size: int | None = field_of(ULONG)
    offered_capabilities: tuple[str, ...] | None = field_of(SYMBOLS)
    desired_capabilities: tuple[str, ...] | None = field_of(SYMBOLS)
    properties: dict[Any, Any] | None = field_of(MAP)


@described_as(0x13, "amqp:flow:list")
@dataclass(slots=True)
class Flow(Composite):
    """Says how much a session may carry, and with a handle, what credit a link has."""

    next_incoming_id: int | None = field_of(UINT)
    incoming_window: int = field_of(UINT, mandatory=True)
    next_outgoing_id: int = field_of(UINT, mandatory=True)
    outgoing_window: int = field_of(UINT, mandatory=True)
    handle: int | None = field_of(UINT)
    delivery_count: int | None = field_of(UINT)
    link_credit: int | None = field_of(UINT)
    available: int | None = field_of(UINT)
    drain: bool = field_of(BOOLEAN, False)
    echo: bool = field_of(BOOLEAN, False)
    properties: dict[Any, Any] | None = field_of(MAP)


@described_as(0x14, "amqp:transfer:list")
@dataclass(slots=True)
class Transfer(Composite):
    """Carries a delivery, or with `more` a part of one."""

    handle: int = field_of(UINT, mandatory=True)
    delivery_id: int | None = field_of(UINT)
    delivery_tag: bytes | None = field_of(BINARY)
    message_format: int | None = field_of(UINT)
    settled: bool | None = field_of(BOOLEAN)
    more: bool = field_of(BOOLEAN, False)
    rcv_settle_mode: int | None = field_of(RECEIVER_SETTLE_MODE)
    state: Any = field_of(ANY)
    resume: bool = field_of(BOOLEAN, False)
    aborted: bool = field_of(BOOLEAN, False)
    batchable: bool = field_of(BOOLEAN, False)


@described_as(0x15, "amqp:disposition:list")
@dataclass(slots=True)
class Disposition(Composite):
    """Says what became of deliveries. `role`: of who says it; True is the receiver."""

    role: bool = field_of(BOOLEAN, mandatory=True)
    first: int = field_of(UINT, mandatory=True)
    last: int | None = field_of(UINT)
    settled: bool = field_of(BOOLEAN, False)
    state: Any = field_of(ANY)
    batchable: bool = field_of(BOOLEAN, False)


@described_as(0x16, "amqp:detach:list")
@dataclass(slots=True)
class Detach(Composite):
    """Detaches a link; `closed`: for good."""

    handle: int = field_of(UINT, mandatory=True)
    closed: bool = field_of(BOOLEAN, False)
    error: Any = field_of(ANY)


@described_as(0x17, "amqp:end:list")
@dataclass(slots=True)
class End(Composite):
    """Ends a session."""

    error: Any = field_of(ANY)


@described_as(0x18, "amqp:close:list")
@dataclass(slots=True)
class Close(Composite):
    """Closes a connection."""

    error: Any = field_of(ANY)


# Part 3: messaging.


@described_as(0x23, "amqp:received:list")
@dataclass(slots=True)
class Received(Composite):
    """A state: the delivery was received up to here."""

    section_number: int = field_of(UINT, mandatory=True)
    section_offset: int = field_of(ULONG, mandatory=True)


@described_as(0x24, "amqp:accepted:list")
@dataclass(slots=True)
class Accepted(Composite):
    """An outcome: processed."""


@described_as(0x25, "amqp:rejected:list")
@dataclass(slots=True)
class Rejected(Composite):
    """An outcome: invalid."""

    error: Any = field_of(ANY)


@described_as(0x26, "amqp:released:list")
@dataclass(slots=True)
class Released(Composite):
    """An outcome: not processed, and not to be counted."""


@described_as(0x27, "amqp:modified:list")
@dataclass(slots=True)
class Modified(Composite):
    """An outcome: changed, and not processed."""

    delivery_failed: bool | None = field_of(BOOLEAN)
    undeliverable_here: bool | None = field_of(BOOLEAN)
    message_annotations: dict[Any, Any] | None = field_of(MAP)


@described_as(0x28, "amqp:source:list")
@dataclass(slots=True)
class Source(Composite):
    """Where messages of a link come from."""

    address: Any = field_of(ANY)
    durable: int = field_of(UINT, 0)
    expiry_policy: str = field_of(SYMBOL, "session-end")
    timeout: int = field_of(UINT, 0)
    dynamic: bool = field_of(BOOLEAN, False)
    dynamic_node_properties: dict[Any, Any] | None = field_of(MAP)
    distribution_mode: str | None = field_of(SYMBOL)
    filter: dict[Any, Any] | None = field_of(MAP)
    default_outcome: Any = field_of(ANY)
    outcomes: tuple[str, ...] | None = field_of(SYMBOLS)
    capabilities: tuple[str, ...] | None = field_of(SYMBOLS)


@described_as(0x29, "amqp:target:list")
@dataclass(slots=True)
class Target(Composite):
    """Where messages of a link go."""

    address: Any = field_of(ANY)
    durable: int = field_of(UINT, 0)
    expiry_policy: str = field_of(SYMBOL, "session-end")
    timeout: int = field_of(UINT, 0)
    dynamic: bool = field_of(BOOLEAN, False)
    dynamic_node_properties: dict[Any, Any] | None = field_of(MAP)
    capabilities: tuple[str, ...] | None = field_of(SYMBOLS)


# Part 4: transactions.


@described_as(0x30, "amqp:coordinator:list")
@dataclass(slots=True)
class Coordinator(Composite):
    """The target of a link that controls transactions."""

    capabilities: tuple[str, ...] | None = field_of(SYMBOLS)


@described_as(0x31, "amqp:declare:list")
@dataclass(slots=True)
class Declare(Composite):
    """Asks for a transaction."""

    global_id: Any = field_of(ANY)


@described_as(0x32, "amqp:discharge:list")
@dataclass(slots=True)
class Discharge(Composite):
    """Ends a transaction; `fail`: rolls it back."""

    txn_id: bytes = field_of(BINARY, mandatory=True)
    fail: bool = field_of(BOOLEAN, False)


@described_as(0x33, "amqp:declared:list")
@dataclass(slots=True)
class Declared(Composite):
    """An outcome: the transaction has this id."""

    txn_id: bytes = field_of(BINARY, mandatory=True)


@described_as(0x34, "amqp:transactional-state:list")
@dataclass(slots=True)
class TransactionalState(Composite):
    """A state: part of a transaction, with this outcome once it is committed."""

    txn_id: bytes = field_of(BINARY, mandatory=True)
    outcome: Any = field_of(ANY)


# Part 5: security.


@described_as(0x40, "amqp:sasl-mechanisms:list")
@dataclass(slots=True)
class SaslMechanisms(Composite):
    """What the server offers."""

    mechanisms: tuple[str, ...] = field_of(SYMBOLS, mandatory=True)


@described_as(0x41, "amqp:sasl-init:list")
@dataclass(slots=True)
class SaslInit(Composite):
    """What the client chose."""

    mechanism: str = field_of(SYMBOL, mandatory=True)
    initial_response: bytes | None = field_of(BINARY)
    hostname: str | None = field_of(STRING)


@described_as(0x42, "amqp:sasl-challenge:list")
@dataclass(slots=True)
class SaslChallenge(Composite):
    """What the server asks."""

    challenge: bytes = field_of(BINARY, mandatory=True)


@described_as(0x43, "amqp:sasl-response:list")
@dataclass(slots=True)
class SaslResponse(Composite):
    """What the client answers."""

    response: bytes = field_of(BINARY, mandatory=True)


@described_as(0x44, "amqp:sasl-outcome:list")
@dataclass(slots=True)
class SaslOutcome(Composite):
    """Whether the client is authenticated: 0 is yes."""

    code: int = field_of(UBYTE, mandatory=True)
    additional_data: bytes | None = field_of(BINARY)
