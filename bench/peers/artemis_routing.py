"""What Artemis has beside our sessions, topics and forwarding: groups, selectors, diverts.

Addresses, queues with their selectors and the divert are in the server's broker.xml.
"""

from collections.abc import Callable, Iterator
from typing import Final

from bench.loads import FRAME_MESSAGES, Loads
from bench.peers.stomp_session import (
    ANYCAST,
    MULTICAST,
    WINDOW,
    receive_all,
    send_all,
    timing,
)
from bench.recorder import Recorder
from bench.row import Row

# As many as our sessions that are received at once.
GROUPS: Final = 16
GROUPED: Final = "grouped"
FORWARDS: Final = "forwards"
FORWARDED: Final = "forwarded"
SELECTED: Final = "selected"
_WANTED: Final = 7
_ANYCAST: Final = """\
      <address name="{name}">
        <anycast><queue name="{name}"><durable>true</durable></queue></anycast>
      </address>"""
_MULTICAST: Final = """\
      <address name="{name}">
        <multicast>
{queues}
        </multicast>
      </address>"""
_QUEUE: Final = '          <queue name="{name}"><durable>true</durable>{selector}</queue>'
_SELECTOR: Final = "<filter string=\"wanted = 's{number}'\"/>"


def addresses(load: Loads) -> str:
    """Return the addresses and queues for broker.xml."""
    parts = [_ANYCAST.format(name=name) for name in (GROUPED, FORWARDS, FORWARDED)]
    for count in load.subscriptions:
        queues = [_QUEUE.format(name=name, selector="") for name in _queues(count)]
        parts.append(_MULTICAST.format(name=_address(count), queues="\n".join(queues)))
    selecting = [
        _QUEUE.format(name=f"{SELECTED}-{number}", selector=_SELECTOR.format(number=number))
        for number in range(load.other_subscriptions)
    ]
    parts.append(_MULTICAST.format(name=SELECTED, queues="\n".join(selecting)))
    return "\n".join(parts)


def divert() -> str:
    """Return the divert for broker.xml."""
    return (
        f'<divert name="{FORWARDS}-divert"><address>{FORWARDS}</address>'
        f"<forwarding-address>{FORWARDED}</forwarding-address><exclusive>true</exclusive></divert>"
    )


def measure(load: Loads, port: int, recorder: Recorder, emit: Callable[[Row], None]) -> None:
    """Measure groups, then multicast addresses, then the divert; each once before, to warm up."""
    rounds: list[Recorder | None] = [None, *[recorder] * load.repeats]
    for timed in rounds:
        _groups(load, port, timed)
    emit(recorder.row("session_send", "send with JMSXGroupID, confirmed",
                      f"{GROUPS} groups; window {WINDOW}", "persistent"))  # fmt: skip
    emit(recorder.row("session_receive", "receive groups in order + acknowledge, confirmed",
                      f"{GROUPS} groups, one consumer"))  # fmt: skip
    for count in load.subscriptions:
        for timed in rounds:
            _publish(load, port, count, timed)
        emit(recorder.row(f"publish_{count}", "publish to a multicast address, confirmed",
                          f"queues: {count}; window {WINDOW}", "persistent"))  # fmt: skip
    for timed in rounds:
        _publish_to_one(load, port, timed)
    wanting = f"queues that want it: 1 of {load.other_subscriptions:,}, by selectors"
    emit(recorder.row("publish_one_of_many", "publish to a multicast address, confirmed",
                      f"{wanting}; window {WINDOW}", "persistent"))  # fmt: skip
    for timed in rounds:
        with timing(timed, "forward", load.forwarded):
            send_all(port, FORWARDS, load.forwarded)
            receive_all(port, FORWARDED, load.forwarded)
    emit(recorder.row("forward", "send, divert, receive + acknowledge, confirmed",
                      f"window {WINDOW}", "persistent"))  # fmt: skip


def _groups(load: Loads, port: int, timed: Recorder | None) -> None:
    count = load.in_sessions
    with timing(timed, "session_send", count):
        send_all(port, GROUPED, count, ANYCAST, lambda n: {"JMSXGroupID": f"s{n % GROUPS}"})
    with timing(timed, "session_receive", count):
        receive_all(port, GROUPED, count)


def _publish(load: Loads, port: int, queues: int, timed: Recorder | None) -> None:
    count = max(FRAME_MESSAGES, load.published // queues)
    with timing(timed, f"publish_{queues}", count):
        send_all(port, _address(queues), count, MULTICAST)
    for name in _queues(queues):
        receive_all(port, f"{_address(queues)}::{name}", count, MULTICAST)


def _publish_to_one(load: Loads, port: int, timed: Recorder | None) -> None:
    count = load.published
    with timing(timed, "publish_one_of_many", count):
        send_all(port, SELECTED, count, MULTICAST, lambda _: {"wanted": f"s{_WANTED}"})
    receive_all(port, f"{SELECTED}::{SELECTED}-{_WANTED}", count, MULTICAST)


def _address(queues: int) -> str:
    return f"multicast-{queues}"


def _queues(count: int) -> Iterator[str]:
    return (f"{_address(count)}-{number}" for number in range(count))
