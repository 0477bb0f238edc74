"""Any message of the contract, with numbers and texts at their limits and past them.

Made from the descriptors, so that a field that is added tomorrow is tried as well.
"""

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st

NOW_MS = 1_700_000_000_000
_INTS = (0, 1, 2, 1_000, NOW_MS, NOW_MS + 1_000, 253_402_300_799_999, 922_337_203_685_477)
_SIGNED = (*_INTS, -1, -(2**63), 2**44, 2**48, 2**48 + 1, 2**63 - 1, 253_402_300_800_000)
_UNSIGNED = (*_INTS, 2**44, 2**63 - 1, 2**63, 2**64 - 1)
_TEXTS = (
    "",
    "a",
    "A/b",
    "\0",
    "a\0b",
    "x" * 128,
    "x" * 129,
    "\U0001f68c" * 128,
    "é" * 4_096,
    "y" * 4_097,
)
_BYTES = (b"", b"p" * 16, b"p" * 64, b"p" * 65, b"\0" * 32, b"\xff" * 16, b"z" * 1_000)

_VALUES: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_INT64: st.sampled_from(_SIGNED),
    FieldDescriptor.TYPE_SINT64: st.sampled_from(_SIGNED),
    FieldDescriptor.TYPE_UINT64: st.sampled_from(_UNSIGNED),
    FieldDescriptor.TYPE_INT32: st.sampled_from((0, 1, -1, 7, 2**31 - 1, -(2**31))),
    FieldDescriptor.TYPE_UINT32: st.sampled_from((0, 1, 3, 5_001, 2**31, 2**32 - 1)),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_STRING: st.sampled_from(_TEXTS),
    FieldDescriptor.TYPE_BYTES: st.sampled_from(_BYTES),
    FieldDescriptor.TYPE_DOUBLE: st.sampled_from((0.0, -1.5, float("inf"), float("nan"))),
    FieldDescriptor.TYPE_FLOAT: st.sampled_from((0.0, -1.5)),
    FieldDescriptor.TYPE_ENUM: st.sampled_from((0, 1, 2, 3, 4, 5, 6, 99)),
}


def messages(kind: Any, *, depth: int = 3) -> st.SearchStrategy[Any]:
    """Return a strategy of messages of a class."""

    @st.composite
    def message(draw: st.DrawFn) -> Any:
        made = kind()
        _fill(made, draw, depth)
        return made

    return message()


def _fill(made: Any, draw: st.DrawFn, depth: int) -> None:
    for field in made.DESCRIPTOR.fields:
        if not draw(st.booleans()):
            continue
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            is_map = field.message_type.GetOptions().map_entry
            if depth and not is_map:
                target = getattr(made, field.name)
                _fill(target.add() if hasattr(target, "add") else target, draw, depth - 1)
        elif hasattr(getattr(made, field.name), "extend"):
            values = draw(st.lists(_VALUES[field.type], max_size=3))
            getattr(made, field.name).extend(values)
        else:
            setattr(made, field.name, draw(_VALUES[field.type]))


@st.composite
def batches(draw: st.DrawFn, kind: Any) -> Any:
    """Return a batch whose columns mostly have a value for each message."""
    batch = kind()
    count = draw(st.integers(1, 3))
    for field in kind.DESCRIPTOR.fields:
        if field.name == "messages" or draw(st.booleans()):
            size = count if draw(st.integers(0, 9)) else draw(st.integers(0, 4))
            values = draw(st.lists(_VALUES[field.type], min_size=size, max_size=size))
            getattr(batch, field.name).extend(values)
    return batch
