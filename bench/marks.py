"""The marks that a run is held against: a figure, what it must reach, and whether it does. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from bench.row import Row

BARE: Final = "bare pipeline"
OURS: Final = "Bendybus"
IDLE: Final = "Bendybus, idle"
AMQP: Final = "Bendybus, AMQP"
SDK: Final = "Azure's SDK, Bendybus"
SDK_IN_MEMORY: Final = "Azure's SDK, in memory"
CLASSIC: Final = "RabbitMQ classic"
QUORUM: Final = "RabbitMQ quorum"
MANY: Final = "Bendybus, many over AMQP"
MANY_OWN: Final = "Bendybus, many over gRPC"
MANY_HTTP: Final = "Bendybus, many over HTTP"
RABBITMQ_HTTP: Final = "RabbitMQ, management over HTTP"
CLASSIC_AMQP: Final = "RabbitMQ classic, AMQP 1.0"
QUORUM_AMQP: Final = "RabbitMQ quorum, AMQP 1.0"


@dataclass(frozen=True, slots=True)
class Mark:
    """A rule about one figure; with a base, the figure is divided by the base's, or `less` that."""

    title: str
    figure: tuple[str, str]
    limit: float
    at_most: bool = False
    base: tuple[str, str] | None = None
    unit: str = "×"
    goal: bool = False
    """Wanted later, not yet asked for."""
    less: bool = False


MARKS: Final = (
    Mark("send ÷ bare at 500", (OURS, "send"), 20, base=(BARE, "send_500"), unit="%"),
    Mark("receive+complete ÷ bare at 500", (OURS, "receive_complete"), 20,
         base=(BARE, "receive_delete_500"), unit="%"),
    Mark("1,000 tasks awaiting their sends", (OURS, "tasks"), 15_000, unit="/s"),
    Mark("one send p50 ÷ bare at window 1", (OURS, "single_send_p50"), 2, at_most=True,
         base=(BARE, "single_send_p50")),
    Mark("16 idle partitions", (IDLE, "idle_partitions"), 5, at_most=True, unit="% of a core"),
    Mark("front end, a message in over AMQP", (AMQP, "amqp_in_flat_cpu"), 60, at_most=True,
         unit="µs CPU"),
    Mark("front end, a message out over AMQP", (AMQP, "amqp_out_flat_cpu"), 75, at_most=True,
         unit="µs CPU"),
    Mark("one send of Azure's SDK, p50 ÷ its limit", (SDK, "sdk_single_p50"), 1, at_most=True,
         base=(SDK, "sdk_single_limit")),
    Mark("16 senders of Azure's SDK ÷ in memory", (SDK, "sdk_senders"), 90,
         base=(SDK_IN_MEMORY, "sdk_senders"), unit="%"),
    Mark("send ÷ bare at 500", (OURS, "send"), 40, base=(BARE, "send_500"), unit="%", goal=True),
    Mark("receive+complete ÷ bare at 500", (OURS, "receive_complete"), 40,
         base=(BARE, "receive_delete_500"), unit="%", goal=True),
    Mark("receive_messages(10) ÷ (100)", (OURS, "receive_10"), 50, base=(OURS, "receive_100"),
         unit="%", goal=True),
    Mark("receive_messages(50) ÷ (100)", (OURS, "receive_50"), 50, base=(OURS, "receive_100"),
         unit="%", goal=True),
    Mark("settling in the background ÷ RabbitMQ classic, prefetch 1", (OURS, "loop_unconfirmed"), 1,
         base=(CLASSIC, "loop_unconfirmed"), goal=True),
    Mark("send ÷ RabbitMQ quorum", (OURS, "send"), 3, base=(QUORUM, "send"), goal=True),
    Mark("receive+complete ÷ RabbitMQ quorum", (OURS, "receive_complete"), 2,
         base=(QUORUM, "receive_complete"), goal=True),
    Mark("one send p50 ÷ RabbitMQ quorum", (OURS, "single_send_p50"), 2, at_most=True,
         base=(QUORUM, "single_send_p50"), goal=True),
    Mark("1,000 tasks awaiting their sends", (OURS, "tasks"), 30_000, unit="/s", goal=True),
    Mark("16 connections' sends ÷ RabbitMQ classic", (MANY, "many_send_16_4"), 1,
         base=(CLASSIC_AMQP, "many_send_16"), goal=True),
    Mark("64 connections' sends ÷ RabbitMQ quorum", (MANY, "many_send_64_4"), 1,
         base=(QUORUM_AMQP, "many_send_64"), goal=True),
    Mark("256 connections' sends", (MANY, "many_send_256_4"), 10_000, unit="/s", goal=True),
    Mark("16 connections' receives, CPU ÷ RabbitMQ quorum", (MANY, "many_receive_16_4_cpu"), 1,
         at_most=True, base=(QUORUM_AMQP, "many_receive_16_cpu"), goal=True),
    Mark("64 connections' receives, CPU ÷ RabbitMQ quorum", (MANY, "many_receive_64_4_cpu"), 1,
         at_most=True, base=(QUORUM_AMQP, "many_receive_64_cpu"), goal=True),
    Mark("64 connections' sends, own client", (MANY_OWN, "many_send_64_4_cpu"), 250, at_most=True,
         unit="µs CPU", goal=True),
    *(
        Mark(f"{connections} connections over HTTP, {work}, front end: more than over AMQP",
             (MANY_HTTP, f"many_{role}_{connections}_4_front_cpu"), requests * 150, at_most=True,
             base=(MANY, f"many_{role}_{connections}_4_front_cpu"), less=True, unit="µs CPU")
        for role, work, requests in (("send", "a send", 1), ("receive", "both requests", 2))
        for connections in (16, 64)
    ),
    Mark("16 idle partitions", (IDLE, "idle_partitions"), 3, at_most=True, unit="% of a core",
         goal=True),
    Mark("memory of a partition server", (IDLE, "rss_partition"), 60, at_most=True, unit="MB",
         goal=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """A mark, and the figure of this run; no figure when it was not measured."""

    mark: Mark
    value: float | None

    @property
    def met(self) -> bool | None:
        """Whether the mark is reached; None when it was not measured."""
        if self.value is None:
            return None
        return self.value <= self.mark.limit if self.mark.at_most else self.value >= self.mark.limit

    def to_json(self) -> dict[str, Any]:
        """Return the verdict for a JSON file."""
        return {**asdict(self.mark), "value": self.value, "met": self.met}


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """Hold the rows of a run against all marks."""
    known = {(row.system, row.what): row.median for row in rows if row.values}
    verdicts: list[Verdict] = []
    for mark in MARKS:
        value = known.get(mark.figure)
        if mark.base is not None:
            base = known.get(mark.base)
            if mark.less:
                value = value - base if value is not None and base is not None else None
            else:
                value = value / base if value is not None and base else None
            if value is not None and mark.unit == "%":
                value *= 100
        verdicts.append(Verdict(mark, value))
    return verdicts
