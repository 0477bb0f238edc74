"""Whether rate and cost stay flat: sends for some time, then receives; compares quarters."""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bench.amqp import exchange
from bench.amqp.clients import Clients
from bench.amqp.exchange import NAMES, TITLES, Server
from bench.amqp.orders import Role
from bench.loads import Loads
from bench.row import Row

QUARTERS: Final = 4
_SLACK_S: Final = 60.0


class Sample(NamedTuple):
    """The state of a run at a moment: messages done, and CPU of the judged processes."""

    at_s: float
    done: int
    cpu_s: float


class Quarter(NamedTuple):
    """A quarter of a run."""

    rate: float
    cpu_us: float
    """For a message."""


def measure(server: Server, load: Loads, running: Clients, emit: Callable[[Row], None]) -> None:
    """Send for the time that the load says, then receive for as long.

    Receiving is slower than sending with every server so far, so that messages last.
    """
    for role in (Role.SEND, Role.RECEIVE):
        rows = flat_rows(server, role, load.amqp_s, quarters(_samples(server, running, role, load)))
        for each in rows:
            emit(each)


def _samples(server: Server, running: Clients, role: Role, load: Loads) -> list[Sample]:
    running.attach(role, seconds=load.amqp_s)
    samples: list[Sample] = []

    def look() -> None:
        samples.append(Sample(time.monotonic(), running.done(), server.cpu_s()))

    look()
    running.run(load.amqp_s + _SLACK_S, look)
    # What is after the end of sending is the wait for the last answers.
    return [each for each in samples if each.at_s <= samples[0].at_s + load.amqp_s]


def quarters(samples: Sequence[Sample]) -> list[Quarter]:
    """Return rate and cost of each quarter of the time between the first and the last sample."""
    first, last = samples[0], samples[-1]
    ends = [first]
    for number in range(1, QUARTERS):
        end_s = first.at_s + (last.at_s - first.at_s) * number / QUARTERS
        ends.append(min(samples, key=lambda each: abs(each.at_s - end_s)))
    ends.append(last)
    found = []
    for begin, end in itertools.pairwise(ends):
        count, took_s = end.done - begin.done, end.at_s - begin.at_s
        if not count or not took_s:
            raise RuntimeError(f"nothing was done in a quarter of {last.at_s - first.at_s:.1f} s")
        found.append(Quarter(count / took_s, 1e6 * (end.cpu_s - begin.cpu_s) / count))
    return found


def flat_rows(server: Server, role: Role, seconds: float, found: Sequence[Quarter]) -> list[Row]:
    """Return rate and cost, with a value for each quarter, and the last quarter by the first."""
    what, title = f"{NAMES[role]}_flat", f"{TITLES[role]}, {seconds:g} s"
    rates, costs = [each.rate for each in found], [each.cpu_us for each in found]
    note = "by quarters"
    return [
        Row(server.system, what, title, "/s", rates, exchange.FRAMES, note=note),
        Row(server.system, f"{what}_cpu", f"{title}: {server.judged}", "µs CPU", costs, note=note),
        Row(server.system, f"{what}_rate_drift", f"{title}: rate, last quarter ÷ first", "%",
            [100 * rates[-1] / rates[0]]),
        Row(server.system, f"{what}_cpu_drift", f"{title}: CPU, last quarter ÷ first", "%",
            [100 * costs[-1] / costs[0]]),
    ]  # fmt: skip
