"""Messages with a value of every AMQP type, sent and received over AMQP."""

from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

from bendybus.amqp import sections
from bendybus.amqp.performatives import Accepted, Transfer
from bendybus.amqp.sections import Message, Properties
from bendybus.amqp.values import Float, Timestamp
from tests.frontend import amqp_examples
from tests.frontend.amqp_examples import exact
from tests.integration.amqp import AmqpBus
from tests.integration.raw_amqp import RECEIVER, SENDER, RawAmqp

# Values on which readers fail: no date, no number of JSON, control characters.
ODD: Final = (
    Timestamp(8_640_000_000_000_000),
    Timestamp(-(2**63)),
    Timestamp(253_402_300_800_000),
    float("nan"),
    float("-inf"),
    Float("nan"),
    Float("inf"),
    "\x00\x1b[2J\r\n",
    "\u2028\ufeff\U0001f68c",
)
SIMPLE: Final = st.one_of(amqp_examples.SIMPLE, st.sampled_from(ODD))
PROPERTIES: Final = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=8), SIMPLE, max_size=5
)
BODIES: Final = st.one_of(
    st.builds(lambda data: Message(data=[data]), st.binary(max_size=40)),
    st.builds(lambda text: Message(data=[text.encode()]), amqp_examples.TEXTS),
    st.builds(
        lambda value: Message(value=value, has_value=True),
        st.one_of(amqp_examples.VALUES, st.sampled_from(ODD)),
    ),
    st.builds(
        lambda lists: Message(sequences=lists),
        st.lists(st.lists(amqp_examples.VALUES, max_size=3), min_size=1, max_size=2),
    ),
)


@st.composite
def batches(draw: st.DrawFn) -> list[Message]:
    """Draw some messages, whose ids tell them apart."""
    found = draw(st.lists(st.tuples(BODIES, PROPERTIES), min_size=15, max_size=15))
    for number, (message, properties) in enumerate(found):
        message.properties = Properties(message_id=f"m{number}")
        message.application_properties = properties
    odd = Message(data=[b"odd"], properties=Properties(message_id="odd"))
    odd.application_properties = {str(number): value for number, value in enumerate(ODD)}
    return [odd, *(message for message, _ in found)]


def facts(messages: Sequence[Message]) -> dict[Any, Any]:
    """Return the properties and the body of each message, by its id."""
    return {
        message.properties.message_id: (
            exact(dict(message.application_properties or {})),
            list(map(bytes, message.data or ())),
            list(map(exact, message.sequences or ())),
            exact(message.value) if message.has_value else None,
        )
        for message in messages
        if message.properties is not None
    }


def send(bus: AmqpBus, queue: str, messages: Sequence[Message]) -> None:
    """Send messages; all are accepted."""
    with RawAmqp(bus.amqp_address).open() as peer:
        assert peer.attach(queue, SENDER) is None
        for each in messages:
            assert peer.transfer(queue, sections.encode(each)) == Accepted()


def received(bus: AmqpBus, queue: str, count: int) -> list[Message]:
    """Receive and delete `count` messages."""
    with RawAmqp(bus.amqp_address).open() as peer:
        assert peer.attach(queue, RECEIVER, snd_settle_mode=1) is None
        peer.flow(queue, count)
        return [
            sections.decode(peer.wait_on_channel(Transfer, lambda *_: True)[2])
            for _ in range(count)
        ]
