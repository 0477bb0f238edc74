"""Frame bodies, states and termini come back from their bytes; others are refused."""

import dataclasses
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bendybus.amqp import composites, decoding, encoding, performatives, values
from bendybus.amqp.composites import Composite
from bendybus.amqp.errors import DecodeError
from bendybus.amqp.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Coordinator,
    Detach,
    Disposition,
    Error,
    Flow,
    Modified,
    Open,
    Received,
    Rejected,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from bendybus.amqp.values import Array, Described, Int, Pairs, Symbol, Ubyte, Uint, Ulong, Ushort
from tests.amqp.any_values import FIELDS, ITEMS, SYMBOLS, TEXTS, VALUES, integers, same

ALL: Final = sorted(composites._BY_CODE.values(), key=lambda kind: kind.CODE)
BY_TYPE: Final[dict[str, st.SearchStrategy[Any]]] = {
    "boolean": st.booleans(),
    "ubyte": integers(Ubyte, 8, False),
    "ushort": integers(Ushort, 16, False),
    "uint": integers(Uint, 32, False),
    "ulong": integers(Ulong, 64, False),
    "sender-settle-mode": st.sampled_from([Ubyte(0), Ubyte(1), Ubyte(2)]),
    "receiver-settle-mode": st.sampled_from([Ubyte(0), Ubyte(1)]),
    "string": TEXTS,
    "symbol": SYMBOLS,
    "symbols": st.lists(SYMBOLS, max_size=3).map(tuple),
    "binary": ITEMS[values.BINARY32],
    "map": FIELDS,
    "any": VALUES,
}


def read(encoded: bytes) -> Composite:
    made, end = composites.decode(encoded + b"payload")
    assert end == len(encoded)
    assert same(composites.composite(decoding.decode_whole(encoded)), made)
    return made


def filled(kind: type[Composite]) -> st.SearchStrategy[Composite]:
    """Return composites of a kind with any of the optional fields. A default is written as none."""

    def field_of(type_: Any, default: Any, mandatory: bool) -> st.SearchStrategy[Any]:
        found = BY_TYPE[type_.name]
        if mandatory:
            return found
        return st.just(default) | found.map(lambda value: default if value == default else value)

    return st.builds(
        kind,
        **{
            name: field_of(type_, default, mandatory)
            for name, type_, default, mandatory in kind._TYPES
        },
    )


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
@settings(max_examples=15, derandomize=True)
@given(st.data())
def test_a_composite_comes_back_as_it_was(kind: type[Composite], data: st.DataObject) -> None:
    given_ = data.draw(filled(kind))

    assert same(read(given_.encoded()), given_)


def test_every_composite_of_the_specification_is_known() -> None:
    codes = [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x1D, 0x23, 0x24, 0x25, 0x26]
    codes += [0x27, 0x28, 0x29, 0x30, 0x31, 0x32, 0x33, 0x34, 0x40, 0x41, 0x42, 0x43, 0x44]

    assert [kind.CODE for kind in ALL] == codes


STATES: Final = (
    Received(Uint(1), Ulong(2)), Accepted(), Rejected(), Modified(True, False, {Symbol("a"): 1}),
    Rejected(Described(Ulong(0x1D), [Symbol("amqp:not-found"), "gone"])),
    TransactionalState(b"id", Described(Ulong(0x24), [])),
)  # fmt: skip


@pytest.mark.parametrize("state", STATES, ids=repr)
def test_a_state_comes_back_from_a_transfer_and_a_disposition(state: Composite) -> None:
    for carrier in (Transfer(Uint(1), state=state), Disposition(True, Uint(1), state=state)):
        found: Any = read(carrier.encoded())

        assert same(composites.known(found.state), state)


def test_termini_and_errors_come_back_from_what_carries_them() -> None:
    source = Source("queue", filter={Symbol("f"): Described(Ulong(1), "x")}, outcomes=("a", "b"))
    target = Target("queue", durable=Uint(2), capabilities=("one",))
    error = Error(Symbol("amqp:not-found"), "no such queue", {Symbol("a"): Int(1)})

    attach: Any = read(Attach("link", Uint(0), True, source=source, target=target).encoded())
    controls: Any = read(Attach("link", Uint(0), False, target=Coordinator()).encoded())
    detach: Any = read(Detach(Uint(0), True, error).encoded())

    assert composites.known(attach.source) == source
    assert composites.known(attach.target) == target
    assert composites.known(controls.target) == Coordinator()
    assert composites.known(detach.error) == error


def test_what_is_left_out_has_its_default() -> None:
    assert read(encoding.encode(Described(Ulong(0x10), ["me"]))) == Open(
        "me", None, 0xFFFFFFFF, 0xFFFF, None
    )
    nulls = ["me", Uint(1), True, *[None] * 11]
    attach: Any = read(encoding.encode(Described(Ulong(0x12), nulls)))
    assert attach == Attach("me", 1, True)
    assert (attach.snd_settle_mode, attach.rcv_settle_mode) == (2, 0)
    assert attach.incomplete_unsettled is False
    source: Any = read(encoding.encode(Described(Ulong(0x28), [])))
    assert (source.durable, source.expiry_policy, source.timeout) == (0, "session-end", 0)
    assert read(encoding.encode(Described(Ulong(0x18), []))) == Close()


def test_defaults_and_absent_fields_take_no_bytes() -> None:
    assert Transfer(handle=0, more=False, settled=None).encoded().hex() == "005314c0020143"
    assert Transfer(handle=0, settled=False).encoded().hex() == "005314c006" + "054340404042"
    assert Close().encoded().hex() == "00531845"


def test_fields_after_the_last_known_one_are_ignored() -> None:
    assert read(encoding.encode(Described(Ulong(0x24), [1, "x", None]))) == Accepted()


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_a_composite_without_its_mandatory_fields_is_refused(kind: type[Composite]) -> None:
    whole = [None if not mandatory else _any_of(type_) for _, type_, _, mandatory in kind._TYPES]
    assert isinstance(kind.from_list(whole), kind)

    for index, (name, _, _, mandatory) in enumerate(kind._TYPES):
        if mandatory:
            for items in (whole[:index], [*whole[:index], None, *whole[index + 1 :]]):
                with pytest.raises(DecodeError, match=rf"{name} must be set"):
                    kind.from_list(items)
            made = dataclasses.replace(kind.from_list(whole), **{name: None})  # type: ignore[type-var]
            with pytest.raises(ValueError, match=rf"{name} must be set"):
                made.encoded()


EXAMPLES: Final[dict[str, Any]] = {
    "boolean": True,
    "ubyte": Ubyte(1),
    "ushort": Ushort(1),
    "uint": Uint(1),
    "ulong": Ulong(1),
    "sender-settle-mode": Ubyte(1),
    "receiver-settle-mode": Ubyte(1),
    "string": "a",
    "symbol": Symbol("a"),
    "symbols": Array(values.SYMBOL32, [Symbol("a")]),
    "binary": b"a",
    "map": {Symbol("a"): 1},
    "any": None,
}
OTHERS: Final = (
    1, 1.5, False, Int(1), [1], Described(1, 2), Pairs((("a", 1),)), Array(values.LONG, [1]),
    *EXAMPLES.values(),
)  # fmt: skip
# The types of a value that a field takes: as strict as can be, but for symbols.
TAKEN: Final[dict[str, set[type]]] = {
    "symbol": {Symbol, str},
    "symbols": {Symbol, str, Array},
    "any": {type(other) for other in OTHERS},
}


def _any_of(type_: Any) -> Any:
    return EXAMPLES[type_.name]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_a_field_of_another_type_is_refused(kind: type[Composite]) -> None:
    whole = [_any_of(type_) for _, type_, _, _ in kind._TYPES]

    for index, (name, type_, _, _) in enumerate(kind._TYPES):
        taken = TAKEN.get(type_.name, {type(EXAMPLES[type_.name])})
        for other in OTHERS:
            if type(other) in taken or other is None:
                continue
            with pytest.raises(DecodeError, match=rf"{name} must be of type {type_.name}"):
                kind.from_list([*whole[:index], other, *whole[index + 1 :]])


def test_choices_are_of_the_values_that_the_specification_names() -> None:
    with pytest.raises(DecodeError, match="sender-settle-mode"):
        Attach.from_list(["a", Uint(0), True, Ubyte(3)])
    with pytest.raises(DecodeError, match="receiver-settle-mode"):
        Attach.from_list(["a", Uint(0), True, Ubyte(2), Ubyte(2)])
    with pytest.raises(DecodeError, match="receiver-settle-mode"):
        Transfer.from_list([Uint(0), *[None] * 5, Ubyte(2)])


def test_several_symbols_may_be_one_or_an_array_and_nothing_else() -> None:
    for given_, found in (
        (Symbol("a"), ("a",)), ("a", ("a",)), (Array(values.SYMBOL32, []), ()),
        (Array(values.NULL, []), ()), (Array(values.SYMBOL32, [Symbol("a")] * 2), ("a", "a")),
        (Array(values.STRING32, ["a", "b"]), ("a", "b")),
    ):  # fmt: skip
        assert SaslMechanisms.from_list([given_]) == SaslMechanisms(found)
    for wrong in (
        "é", ["a"], Array(values.STRING32, ["é"]), Array(values.NULL, [None]),
        Array(values.SYMBOL32, [Symbol("a")], Ulong(1), True),
    ):  # fmt: skip
        with pytest.raises(DecodeError, match="must be of type symbols"):
            SaslMechanisms.from_list([wrong])


def test_one_text_is_one_symbol_when_it_is_written() -> None:
    one: Any = "PLAIN"

    assert read(SaslMechanisms(one).encoded()) == SaslMechanisms(("PLAIN",))
    assert read(SaslMechanisms(()).encoded()) == SaslMechanisms(())


@pytest.mark.parametrize(
    "made",
    [
        Transfer(handle="1"), Transfer(handle=True),  # type: ignore[arg-type]
        Transfer(1, settled=0), Transfer(1, delivery_tag=bytearray()),  # type: ignore[arg-type]
        Open(container_id=b"a"), Open("a", properties=Pairs()), Open("a", properties=object()),  # type: ignore[arg-type]
        Error(condition=1), Begin(0, 1, 2.5, 3), Attach("a", 1, True, snd_settle_mode=3),  # type: ignore[arg-type]
        Disposition(1, 1), Flow(None, 1, 2, 3, drain=1.5), SaslOutcome(b""),  # type: ignore[arg-type]
    ],
    ids=lambda made: f"{made!r:.40}",
)  # fmt: skip
def test_a_field_of_another_type_is_not_written(made: Composite) -> None:
    with pytest.raises(TypeError):
        made.encoded()


def test_a_number_past_its_field_is_not_written() -> None:
    for made in (Transfer(1 << 32), Transfer(-1), Open("a", channel_max=65_536), SaslOutcome(256)):
        with pytest.raises(ValueError, match="out of range"):
            made.encoded()


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_a_descriptor_is_a_ulong_of_any_width_or_a_symbol(kind: type[Composite]) -> None:
    fields = [_any_of(type_) if mandatory else None for _, type_, _, mandatory in kind._TYPES]
    symbol = next(name for name, each in composites._BY_SYMBOL.items() if each is kind)
    body = encoding.encode(fields)
    made = kind.from_list(fields)

    assert read(b"\x00\x53" + bytes((kind.CODE,)) + body) == made
    assert read(b"\x00\x80" + kind.CODE.to_bytes(8, "big") + body) == made
    assert read(b"\x00" + encoding.encode(Symbol(symbol)) + body) == made
    assert symbol.startswith("amqp:")
    assert symbol.endswith(":list")


@pytest.mark.parametrize(
    "value",
    [
        None, [], Described(Ulong(0x10), {}), Described(Ulong(0x10), None), Described(0x24, []),
        Described(Uint(0x24), []), Described(True, []), Described(Ulong(0x19), []),
        Described(Symbol("amqp:open"), []), Described("amqp:accepted:list", []),
        Described([], []), Described({}, []), Described(Described(1, []), []),
        Described(Array(0x40, []), []), Described(float("nan"), []), Described(b"x" * 10_000, []),
    ],
    ids=lambda value: f"{value!r:.40}",
)  # fmt: skip
def test_what_is_no_composite_is_refused_and_known_as_it_is(value: Any) -> None:
    with pytest.raises(DecodeError, match=r"expected|unknown descriptor") as refused:
        composites.composite(value)

    assert len(str(refused.value)) < 200
    with pytest.raises(DecodeError, match=r"expected|unknown descriptor"):
        composites.decode(encoding.encode(value))
    assert composites.known(value) is value


def test_fields_are_nested_as_deep_as_in_any_value() -> None:
    for depth, refused in ((decoding.NESTING_MAX - 2, False), (decoding.NESTING_MAX - 1, True)):
        inner: list[Any] = []
        for _ in range(depth):
            inner = [inner]
        encoded = encoding.encode(Described(Ulong(0x26), [inner]))

        for decode in (decoding.decode, composites.decode):
            if refused:
                with pytest.raises(DecodeError, match="nested"):
                    decode(encoded)
            else:
                assert decode(encoded)[1] == len(encoded)


def test_performatives_and_composites_are_the_same_classes() -> None:
    assert {vars(performatives).get(kind.__name__) for kind in ALL} == set(ALL)
