"""Sends and receives a fixed number of messages with Proton; measures the server's cost."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench import processes
from bench.amqp import clients
from bench.amqp.clients import Clients
from bench.amqp.orders import WINDOW, Place, Role
from bench.loads import Loads
from bench.recorder import Recorder, Roles
from bench.row import Row

FRAMES: Final = f"{clients.PROCESSES} connections, 1 a transfer, ≤ {WINDOW:,} unsettled each"
NAMES: Final = {
    Role.SEND: "amqp_in",
    Role.RECEIVE: "amqp_out",
    Role.RECEIVE_JOINED: "amqp_out_joined",
}
TITLES: Final = {
    Role.SEND: "send, accepted one by one",
    Role.RECEIVE: "receive, settled one by one",
    Role.RECEIVE_JOINED: "receive, dispositions joined by Proton",
}
# Each receives what the one before has sent.
_ROUND: Final = (Role.SEND, Role.RECEIVE, Role.SEND, Role.RECEIVE_JOINED)
_LIMIT_S: Final = 240.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server to measure, and its processes by role. Marks are about the role `judged`."""

    system: str
    place: Place
    roles: Roles
    judged: str
    receive_note: str = ""
    warm_up: int = 1
    """Rounds that are not measured. A JVM needs some thousand calls to compile its loops."""
    commits: Callable[[], float] | None = None
    """Returns how many commits there were so far."""

    def cpu_s(self) -> float:
        """Return the processor time of the judged role."""
        return cpu_s(self.roles[self.judged])


@dataclass(slots=True)
class _Costs:
    """CPU of the judged role for a message, and messages of a commit, of each repetition."""

    cpu_us: list[float] = field(default_factory=list)
    commit_messages: list[float] = field(default_factory=list)


def measure(server: Server, load: Loads, running: Clients, emit: Callable[[Row], None]) -> None:
    """Send and receive, as often as the load says."""
    recorder = Recorder(server.system, {"client": [[pid] for pid in running.pids], **server.roles})
    costs = {role: _Costs() for role in Role}
    for _ in range(server.warm_up):
        for role in _ROUND:
            running.attach(role, count=load.amqp)
            running.run(_LIMIT_S)
    for _ in range(load.repeats):
        for role in _ROUND:
            _once(server, running, role, load.amqp, recorder, costs[role])
    for role in Role:
        what, cost, together = NAMES[role], costs[role], FRAMES
        if cost.commit_messages:
            together += f"; {statistics.median(cost.commit_messages):.0f} a commit"
        note = "" if role is Role.SEND else server.receive_note
        emit(recorder.row(what, TITLES[role], together, note))
        title = f"{TITLES[role]}: {server.judged}"
        emit(Row(server.system, f"{what}_cpu", title, "µs CPU", cost.cpu_us))


def _once(
    server: Server, running: Clients, role: Role, count: int, recorder: Recorder, costs: _Costs
) -> None:
    running.attach(role, count=count)
    commits_before = 0.0 if server.commits is None else server.commits()
    before_s = server.cpu_s()
    with recorder.timing(NAMES[role], count):
        done = running.run(_LIMIT_S)
    assert done == count, f"{done} of {count}"
    costs.cpu_us.append(1e6 * (server.cpu_s() - before_s) / count)
    if server.commits is not None:
        commits = server.commits() - commits_before
        costs.commit_messages.append(count / commits if commits else 0.0)


def cpu_s(groups: Sequence[Sequence[int]]) -> float:
    """Return the processor time of processes."""
    return sum(processes.cpu_s(pid) for group in groups for pid in group)
