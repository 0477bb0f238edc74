"""azure-servicebus reads what we write, and we read what it writes: a second oracle.

Its decoder tells fewer types apart than there are: integers are ints, texts are bytes, an array is
a list. So what it reads is compared as `flat` says. It knows no char, decimal32 and decimal64, and
what it makes of a decimal128 is a number; these are left out.
"""

import uuid
from typing import Any, Final

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus._pyamqp import (
    _decode,
    _encode,
    endpoints,
    error,
    message,
    outcomes,
    performatives,
)
from azure.servicebus._pyamqp.types import TYPE, VALUE, AMQPTypes, FieldDefinition
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from hypothesis import given, settings
from hypothesis import strategies as st

from bendybus.amqp import composites, decoding, encoding, sections, values
from bendybus.amqp.performatives import Transfer
from bendybus.amqp.sections import Header, Message, Properties
from bendybus.amqp.values import (
    Array,
    Byte,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)
from tests.amqp.any_values import ITEMS, SYMBOLS, TEXTS, same

# What it can write, by our constructor.
CODES: Final = (
    values.BOOLEAN, values.UBYTE, values.USHORT, values.UINT, values.ULONG, values.BYTE,
    values.SHORT, values.INT, values.LONG, values.FLOAT, values.DOUBLE, values.TIMESTAMP,
    values.UUID, values.BINARY32, values.STRING32, values.SYMBOL32,
)  # fmt: skip
# The type that it names, by ours.
KINDS: Final = {
    bool: AMQPTypes.boolean, Ubyte: AMQPTypes.ubyte, Ushort: AMQPTypes.ushort,
    Uint: AMQPTypes.uint, Ulong: AMQPTypes.ulong, Byte: AMQPTypes.byte, Short: AMQPTypes.short,
    Int: AMQPTypes.int, int: AMQPTypes.long, Float: AMQPTypes.float, float: AMQPTypes.double,
    Timestamp: AMQPTypes.timestamp, uuid.UUID: AMQPTypes.uuid, bytes: AMQPTypes.binary,
    str: AMQPTypes.string, Symbol: AMQPTypes.symbol,
}  # fmt: skip
SCALARS: Final = st.none() | st.one_of(*(ITEMS[code] for code in CODES))


def arrays_of_some() -> st.SearchStrategy[Array]:
    """Return arrays that it can write: of others it gives items constructors of their own."""

    def of(code: int) -> st.SearchStrategy[Array]:
        items = ITEMS[code].map(lambda item: item or (type(item)(1) if item == 0 else item))
        return st.builds(Array, st.just(code), st.lists(items, min_size=1, max_size=4))

    return st.sampled_from(CODES[1:]).flatmap(of)


def compounds(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    # Without the descriptors of delivery states, of which it makes dicts.
    codes = st.integers(1000, 2000).map(Ulong)
    # Texts only: symbols with the same letters are the same keys for it.
    maps = st.dictionaries(TEXTS, inner, max_size=4)
    # Described maps get a key that says so.
    plain = inner.map(lambda value: [*value.values()] if type(value) is dict else value)
    return (
        st.lists(inner, max_size=4) | maps | arrays_of_some() | st.builds(Described, codes, plain)
    )


VALUES: Final = st.recursive(SCALARS, compounds, max_leaves=8)
CODEC: Final = settings(max_examples=100, derandomize=True)


def theirs(value: Any) -> Any:
    """Return a value of ours as azure-servicebus takes it: with its type beside it."""
    if value is None:
        return {TYPE: AMQPTypes.null, VALUE: None}
    if isinstance(value, list):
        return {TYPE: AMQPTypes.list, VALUE: [theirs(item) for item in value]}
    if isinstance(value, dict):
        pairs = [(theirs(key), theirs(item)) for key, item in value.items()]
        return {TYPE: AMQPTypes.map, VALUE: pairs}
    if isinstance(value, Array):
        return {TYPE: AMQPTypes.array, VALUE: [theirs(item) for item in value.items]}
    if isinstance(value, Described):
        return {TYPE: AMQPTypes.described, VALUE: (theirs(value.descriptor), theirs(value.value))}
    return {TYPE: KINDS[type(value)], VALUE: value}


def flat(value: Any) -> Any:
    """Return what is left of a value of ours when azure-servicebus has read it."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [flat(item) for item in value]
    if isinstance(value, dict):
        return {flat(key): flat(item) for key, item in value.items()}
    if isinstance(value, Array):
        return flat(value.items)
    if isinstance(value, Described):
        return flat(value.value)
    return repr(value) if isinstance(value, float) else value


def floats_as_text(value: Any) -> Any:
    """Return what azure-servicebus has read with floats that can be compared."""
    if isinstance(value, list):
        return [floats_as_text(item) for item in value]
    if isinstance(value, dict):
        return {key: floats_as_text(item) for key, item in value.items()}
    return repr(float(value)) if isinstance(value, float) else value


def read(encoded: bytes) -> Any:
    rest, value = _decode._DECODE_BY_CONSTRUCTOR[encoded[0]](memoryview(encoded)[1:])
    assert not rest
    return value


def written(value: Any) -> bytes:
    out = bytearray()
    _encode.encode_value(out, value)
    return bytes(out)


@CODEC
@given(VALUES)
def test_azure_servicebus_reads_what_we_write(value: Any) -> None:
    assert floats_as_text(read(encoding.encode(value))) == flat(value)


@CODEC
@given(VALUES)
def test_we_read_what_azure_servicebus_writes(value: Any) -> None:
    assert same(decoding.decode_whole(written(theirs(value))), value)


def test_its_empty_arrays_have_no_type() -> None:
    encoded = written({TYPE: AMQPTypes.array, VALUE: []})

    assert encoded.hex() == "e00100"
    assert decoding.decode_whole(encoded) == Array(values.NULL, [])


THEIR_CLASSES: Final = [
    performatives.OpenFrame, performatives.BeginFrame, performatives.AttachFrame,
    performatives.FlowFrame, performatives.TransferFrame, performatives.DispositionFrame,
    performatives.DetachFrame, performatives.EndFrame, performatives.CloseFrame,
    performatives.SASLMechanism, performatives.SASLInit, performatives.SASLChallenge,
    performatives.SASLResponse, performatives.SASLOutcome, outcomes.Received, outcomes.Accepted,
    outcomes.Rejected, outcomes.Released, outcomes.Modified, endpoints.Source, endpoints.Target,
    error.AMQPError,
]  # fmt: skip
# Importing one performative makes all of them known.
OURS: Final = composites._BY_CODE if Transfer.CODE else {}
# What it names otherwise.
RENAMED: Final = {
    "idle_timeout": "idle_time_out", "send_settle_mode": "snd_settle_mode", "filters": "filter",
    "sasl_server_mechanisms": "mechanisms",
}  # fmt: skip
OUR_TYPES: Final = {
    "BOOL": "boolean", "UBYTE": "ubyte", "USHORT": "ushort", "UINT": "uint", "ULONG": "ulong",
    "STRING": "string", "SYMBOL": "symbol", "BINARY": "binary", "fields": "map",
    "node-properties": "map", "filter-set": "map",
}  # fmt: skip
# Where it is wrong: a message format has no default, and this one is no string.
OUR_DEFAULTS: Final = {"message_format": None, "durable": 0}


@pytest.mark.parametrize("kind", THEIR_CLASSES, ids=lambda kind: kind.__name__)
def test_fields_have_its_order_types_and_defaults(kind: Any) -> None:
    ours = OURS[kind._code]
    found = [
        (name, type_.name.replace("sender-settle-mode", "ubyte").replace("receiver-settle-mode",
         "ubyte"), default, mandatory)
        for name, type_, default, mandatory in ours._TYPES
    ]  # fmt: skip

    expected = []
    for field in kind._definition:
        if field is None:
            continue
        name = RENAMED.get(field.name, field.name)
        label = field.type.value if not isinstance(field.type, str) else field.type
        type_ = "symbols" if field.multiple else OUR_TYPES.get(label, "any")
        type_ = "any" if name == "address" else type_
        default = OUR_DEFAULTS.get(name, field.default)
        default = default.decode() if isinstance(default, bytes) else default
        expected.append((name, type_, default, field.mandatory))
    assert found == expected


def symbols(*names: str) -> tuple[Symbol, ...]:
    return tuple(map(Symbol, names))


FILTER: Final = Symbol("com.microsoft:session-filter")
# Frames of theirs, and the fields that they have.
FULL: Final[list[tuple[Any, list[Any]]]] = [
    (
        performatives.OpenFrame("me", "host", 65_536, 255, 60_000, ["en"], ["de", "en"], ["a"],
                                ["b"], {"product": "x"}),
        ["me", "host", Uint(65_536), Ushort(255), Uint(60_000), symbols("en"),
         symbols("de", "en"), symbols("a"), symbols("b"), {Symbol("product"): "x"}],
    ),
    (
        performatives.BeginFrame(1, 2, 3, 4, 5, ["a"], ["b"], {"c": True}),
        [Ushort(1), Uint(2), Uint(3), Uint(4), Uint(5), symbols("a"), symbols("b"),
         {Symbol("c"): True}],
    ),
    (
        performatives.FlowFrame(1, 2, 3, 4, 5, 6, 7, 8, True, True, {"a": 1}),
        [*map(Uint, range(1, 9)), True, True, {Symbol("a"): Int(1)}],
    ),
    (
        performatives.TransferFrame(1, 2, b"tag", 0, False, True, None, None, False, False, True,
                                    b""),
        [Uint(1), Uint(2), b"tag", Uint(0), False, True, None, None, False, False, True],
    ),
    (
        performatives.DispositionFrame(True, 1, 2, True, outcomes.Accepted(), False),
        [True, Uint(1), Uint(2), True, Described(Ulong(0x24), []), False],
    ),
    (
        performatives.DispositionFrame(True, 1, 2, True, outcomes.Rejected(
            error.AMQPError("amqp:internal-error", "why", {"a": "b"})), False),
        [True, Uint(1), Uint(2), True, Described(Ulong(0x25), [Described(Ulong(0x1D), [
            Symbol("amqp:internal-error"), "why", {Symbol("a"): "b"}])]), False],
    ),
    (
        performatives.DispositionFrame(True, 1, 2, True, outcomes.Modified(True, False, {
            "a": "b"}), False),
        [True, Uint(1), Uint(2), True, Described(Ulong(0x27), [True, False, {Symbol("a"): "b"}]),
         False],
    ),
    (
        performatives.DetachFrame(1, True, error.AMQPError("amqp:not-found", "gone", None)),
        [Uint(1), True, Described(Ulong(0x1D), [Symbol("amqp:not-found"), "gone", None])],
    ),
    (performatives.EndFrame(None), [None]),
    (performatives.CloseFrame(None), [None]),
    (performatives.SASLInit("PLAIN", b"\0u\0p", "host"), [Symbol("PLAIN"), b"\0u\0p", "host"]),
    (performatives.SASLOutcome(0, b"x"), [Ubyte(0), b"x"]),
    (
        performatives.AttachFrame(
            "link", 1, True, 0, 1,
            endpoints.Source(
                "queue", 2, b"never", 5, True, None, b"move",
                {b"com.microsoft:session-filter": ("com.microsoft:session-filter", "s")}, None,
                ["amqp:accepted:list"], ["c"],
            ),
            endpoints.Target("reply", 0, b"never", 5, False, None, None),
            None, False, 7, 1_048_576, ["a"], ["b"], {b"com.microsoft:timeout": 60_000},
        ),
        [
            "link", Uint(1), True, Ubyte(0), Ubyte(1),
            Described(Ulong(0x28), [
                "queue", Uint(2), Symbol("never"), Uint(5), True, None, Symbol("move"),
                {FILTER: Described(FILTER, "s")}, None,
                Array(values.SYMBOL32, [Symbol("amqp:accepted:list")]),
                Array(values.SYMBOL32, [Symbol("c")]),
            ]),
            Described(Ulong(0x29), ["reply", Uint(0), Symbol("never"), Uint(5), False, None, None]),
            None, False, Uint(7), Ulong(1_048_576), symbols("a"), symbols("b"),
            {Symbol("com.microsoft:timeout"): Int(60_000)},
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "fields"), FULL, ids=lambda each: type(each).__name__)
def test_we_read_a_frame_that_azure_servicebus_writes(frame: Any, fields: list[Any]) -> None:
    _, body = _encode.encode_frame(frame)
    value, end = decoding.decode(bytes(body or b""))

    made = composites.composite(value)

    assert end == len(body or b"")
    found = [getattr(made, name) for name, *_ in made._TYPES]
    assert same(found, fields)
    for each in found:
        if isinstance(each, Described):
            assert isinstance(composites.known(each), composites.Composite)


@pytest.mark.parametrize(("frame", "fields"), FULL, ids=lambda each: type(each).__name__)
def test_azure_servicebus_reads_a_frame_that_we_write(frame: Any, fields: list[Any]) -> None:
    made = OURS[frame._code](*fields)

    code, found = _decode.decode_frame(memoryview(made.encoded()))
    again, expected = _decode.decode_frame(memoryview(_encode.encode_frame(frame)[1] or b""))

    assert code == again == made.CODE == frame._code
    # A message format that is left out is 0 for it.
    assert [each or None for each in found] == [each or None for each in expected]


MESSAGE: Final = Message(
    header=Header(True, Ubyte(5), Uint(60_000), False, Uint(2)),
    message_annotations={Symbol("x-opt-partition-key"): "key", Symbol("x-opt-n"): Int(300)},
    properties=Properties(
        "id", b"user", "to", "subject", "reply", "correlation", Symbol("text/plain"),
        Symbol("gzip"), Timestamp(2), Timestamp(1), "session", Uint(3), "reply-session",
    ),
    application_properties={"a": Int(1), "b": "text", "c": True, "d": b"\xff", "e": 1.5},
    footer={Symbol("x-opt-f"): "end"},
)  # fmt: skip
THEIRS: Final = message.Message(
    header=message.Header(True, 5, 60_000, False, 2),
    message_annotations={b"x-opt-partition-key": "key", b"x-opt-n": 300},
    properties=message.Properties(
        "id", b"user", "to", "subject", "reply", "correlation", "text/plain", "gzip", 2, 1,
        "session", 3, "reply-session",
    ),
    application_properties={"a": 1, "b": "text", "c": True, "d": b"\xff", "e": 1.5},
    footer={b"x-opt-f": "end"},
)  # fmt: skip
BODIES: Final[list[tuple[dict[str, Any], dict[str, Any]]]] = [
    ({"data": (b"one", b"", b"x" * 300)}, {"data": [b"one", b"", b"x" * 300]}),
    ({"sequences": ([Int(1), "a"], [])}, {"sequence": [[1, "a"], []]}),
    ({"value": {"a": Int(1)}, "has_value": True}, {"value": {"a": 1}}),
    ({}, {}),
]


def payload(given_: Any) -> bytes:
    return bytes(_encode.encode_payload(bytearray(), given_))


@pytest.mark.parametrize(("ours", "other"), BODIES)
def test_messages_are_the_same_ones_for_azure_servicebus(ours: Any, other: Any) -> None:
    our_message = Message(**{name: getattr(MESSAGE, name) for name in Message.__slots__} | ours)
    their_message = THEIRS._replace(**other)

    assert same(sections.decode(payload(their_message)), our_message)
    assert _decode.decode_payload(memoryview(sections.encode(our_message))) == (
        _decode.decode_payload(memoryview(payload(their_message)))
    )


def test_its_delivery_annotations_come_last() -> None:
    encoded = payload(THEIRS._replace(data=[b"x"], delivery_annotations={b"x-opt-d": "d"}))

    assert sections.decode(encoded).delivery_annotations == {Symbol("x-opt-d"): "d"}
    assert encoded.index(b"x-opt-d") > encoded.index(b"x-opt-f")


@pytest.mark.parametrize(("body", "data"), [(None, ()), (b"", (b"",)), ("é", ("é".encode(),))])
def test_messages_of_its_users_are_read(body: Any, data: tuple[bytes, ...]) -> None:
    made = ServiceBusMessage(
        body, message_id="m", session_id="s", application_properties={"n": 1, "u": uuid.UUID(int=1)}
    )
    encoded = payload(PyamqpTransport.to_outgoing_amqp_message(made._raw_amqp_message))

    found = sections.decode(encoded)

    assert found.properties == Properties(message_id="m", group_id="s")
    assert found.application_properties == {"n": 1, "u": uuid.UUID(int=1)}
    assert (found.data, found.has_value) == (data, False)


@CODEC
@given(st.dictionaries(SYMBOLS, SCALARS, max_size=4))
def test_its_fields_are_maps_of_symbols(fields: dict[Symbol, Any]) -> None:
    given_ = {key: theirs(value) for key, value in fields.items()}
    encoded = written(_encode._FIELD_DEFINITIONS[FieldDefinition.fields](given_))

    assert same(decoding.decode_whole(encoded), fields or None)
