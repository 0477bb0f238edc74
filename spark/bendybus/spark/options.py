"""The options of one read or write, validated: what the rest of the room works with."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bendybus.domain import entity as entity_rules
from bendybus.domain import subscription_name
from bendybus.spark import option_table
from bendybus.spark.columns import ALL, BODY, DEFAULT
from bendybus.spark.errors import OptionError
from bendybus.spark.option_table import EARLIEST, LATEST, Position, Use

TRAILING: Final = "trailing"
STATES: Final = ("active", "deferred", "scheduled")
TIMEOUT_S: Final = 60.0
_WAYS: Final = ("connectionStringFile", "connectionString", "endpoint")
# The longer one first: it ends like the other one.
_SUFFIXES: Final = {
    "transferdeadletter": entity_rules.TRANSFER_DEAD_LETTER_SUFFIX,
    "deadletter": entity_rules.DEAD_LETTER_SUFFIX,
}


@dataclass(frozen=True, slots=True)
class Connection:
    """How to connect. The string itself is never shown."""

    string: str = ""
    string_file: str = ""
    endpoint: str = ""
    token_file: str = ""
    ca_file: str = ""

    def __repr__(self) -> str:
        return f"Connection({self.endpoint or self.string_file or '…'})"


@dataclass(frozen=True, slots=True)
class Entity:
    """A queue, a topic, a subscription, or a sub-queue of one."""

    name: str
    subscription: str = ""
    sub_queue: str = ""

    @property
    def path(self) -> str:
        """The path that the column `entity` shows."""
        whole = (
            subscription_name.compose(self.name, self.subscription)
            if self.subscription
            else self.name
        )
        return f"{whole}/{_SUFFIXES[self.sub_queue]}" if self.sub_queue else whole


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Of a batch read or a streaming one."""

    connection: Connection
    entity: Entity
    starting: Position
    ending: Position
    columns: tuple[str, ...]
    body: str
    settle: str
    states: tuple[str, ...]
    session_id: str | None
    owner: str
    lease_s: float
    max_messages: int
    by_time: bool
    max_bytes: int
    min_messages: int
    max_delay_s: float
    min_partitions: int
    fail_on_data_loss: bool
    fetch_messages: int
    fetch_bytes: int
    timeout_s: float
    push_filters: bool

    @property
    def drains(self) -> bool:
        """Whether what was committed is removed."""
        return self.settle == TRAILING


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Of a batch write or a streaming one. `entity` is None where each row names it."""

    connection: Connection
    entity: Entity | None
    idempotency_key: str
    # How many tasks the write has; 0: not said.
    tasks: int
    timeout_s: float


def of_read(given: Mapping[str, str], use: Use) -> ReadOptions:
    """Return the options of a read. Raises OptionError."""
    found = option_table.read(given, use)
    entity = _entity(found)
    if entity is None:
        raise OptionError("option queue: is required; or topic and subscription, or entity")
    if "topic" in found and not entity.subscription:
        raise OptionError("option subscription: is required; messages of a topic wait there")
    options = ReadOptions(
        connection=_connection(found),
        entity=entity,
        starting=_starting(found, use),
        ending=_either(found, "endingOffsets", "endingTime", LATEST),
        columns=_columns(found),
        body=found.get("body", "binary"),
        settle=found.get("settle", "none"),
        states=_states(found),
        session_id=found.get("sessionId"),
        owner=found.get("owner", ""),
        lease_s=found.get("leaseDuration", 60.0),
        max_messages=found.get("maxMessagesPerTrigger", 0),
        by_time=found.get("dealBy") == "time",
        max_bytes=found.get("maxBytesPerTrigger", 0),
        min_messages=found.get("minMessagesPerTrigger", 0),
        max_delay_s=found.get("maxTriggerDelay", 900.0),
        min_partitions=found.get("minPartitions", 0),
        fail_on_data_loss=found.get("failOnDataLoss", True),
        fetch_messages=found.get("fetchSize", 1_000),
        fetch_bytes=found.get("fetchBytes", 1_048_576),
        timeout_s=found.get("timeout", TIMEOUT_S),
        push_filters=found.get("pushFilters", False),
    )
    _check(options, found, use)
    return options


def of_write(given: Mapping[str, str], use: Use) -> WriteOptions:
    """Return the options of a write. Raises OptionError."""
    found = option_table.read(given, use)
    entity = _entity(found)
    if entity is not None and (entity.subscription or entity.sub_queue):
        raise OptionError(
            f"option entity: {entity.path} cannot be written to; name a queue or a topic"
        )
    key, tasks = found.get("idempotencyKey", ""), found.get("tasks")
    if key and tasks is None:
        raise OptionError(
            "option tasks: is required with idempotencyKey, since rows are known by task; set it "
            "to df.rdd.getNumPartitions()"
        )
    _needs(found, "tasks", "idempotencyKey")
    return WriteOptions(
        _connection(found),
        entity,
        key,
        # Spark writes a frame without partitions, which an empty batch may be, in one task.
        0 if tasks is None else max(1, tasks),
        found.get("timeout", TIMEOUT_S),
    )


def columns_of(given: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Return the columns, and the type of the body, whatever else was given. Raises OptionError."""
    found = {
        option.name: option.read(option.name, value)
        for key, value in given.items()
        if key.lower() in ("columns", "body") and (option := option_table.known(key))
    }
    return _columns(found), found.get("body", "binary")


def _check(options: ReadOptions, found: Mapping[str, Any], use: Use) -> None:
    """Refuse options that contradict each other."""
    if options.min_messages > options.max_messages > 0:
        raise OptionError(
            "option minMessagesPerTrigger: must not be above maxMessagesPerTrigger "
            f"(got {options.min_messages} and {options.max_messages})"
        )
    _needs(found, "maxTriggerDelay", "minMessagesPerTrigger")
    if options.entity.sub_queue and options.ending.time is not None:
        raise OptionError(
            "option endingTime: is not of a sub-queue, where times do not rise with numbers; "
            "filter the column enqueued_at instead"
        )
    if options.entity.sub_queue and options.by_time:
        raise OptionError(
            "option dealBy: time is not of a sub-queue, where times do not rise with numbers"
        )
    if not options.drains:
        for name in ("owner", "leaseDuration"):
            if name in found:
                raise OptionError(f"option {name}: is of settle=trailing only; set both or neither")
        return
    if use is not Use.STREAM_READ:
        raise OptionError(
            "option settle: trailing is of streaming reads; use "
            "readStream … writeStream.trigger(availableNow=True), or settle=none"
        )
    if options.starting != Position(EARLIEST):
        raise OptionError(
            "option settle: trailing removes everything up to what was read, so it starts at "
            "the beginning; leave out startingOffsets and startingTime"
        )
    for name, kept in (("states", options.states == ("active",)), ("sessionId", False)):
        if name in found and not kept:
            raise OptionError(
                f"option settle: trailing removes all active messages, also those that {name} "
                f"leaves out; leave out {name}, and filter the DataFrame"
            )


def _needs(found: Mapping[str, Any], name: str, other: str) -> None:
    if name in found and other not in found:
        raise OptionError(f"option {name}: has no effect without {other}; set both")


def _connection(found: Mapping[str, Any]) -> Connection:
    ways = [name for name in _WAYS if name in found]
    if len(ways) > 1:
        raise OptionError(f"option {ways[1]}: contradicts {ways[0]}; set one of them")
    if ("endpoint" in found) != ("tokenFile" in found):
        missing = "tokenFile" if "endpoint" in found else "endpoint"
        raise OptionError(f"option {missing}: is required; endpoint and tokenFile go together")
    return Connection(
        found.get("connectionString", ""),
        found.get("connectionStringFile", ""),
        found.get("endpoint", ""),
        found.get("tokenFile", ""),
        found.get("caFile", ""),
    )


def _entity(found: Mapping[str, Any]) -> Entity | None:
    ways = [name for name in ("queue", "topic", "entity") if name in found]
    if len(ways) > 1:
        raise OptionError(f"option {ways[1]}: contradicts {ways[0]}; set one of them")
    _needs(found, "subscription", "topic")
    if not ways:
        return None
    sub_queue = found.get("subQueue", "")
    if ways[0] != "entity":
        return Entity(found[ways[0]], found.get("subscription", ""), sub_queue)
    named = of_path(found["entity"])
    if named.sub_queue and sub_queue:
        raise OptionError("option subQueue: contradicts entity, which names a sub-queue already")
    return Entity(named.name, named.subscription, named.sub_queue or sub_queue)


def of_path(path: str) -> Entity:
    """Return the entity of a path, `NAME` or `TOPIC/Subscriptions/NAME`, with its sub-queue."""
    whole, sub_queue = path.strip().strip("/"), ""
    for name, suffix in _SUFFIXES.items():
        if whole.lower().endswith(f"/{suffix}".lower()):
            whole, sub_queue = whole[: -len(suffix) - 1], name
            break
    topic, subscription = subscription_name.split(whole) or (whole, "")
    return Entity(topic, subscription, sub_queue)


def _starting(found: Mapping[str, Any], use: Use) -> Position:
    tap = use is Use.STREAM_READ and found.get("settle") != TRAILING
    return _either(found, "startingOffsets", "startingTime", LATEST if tap else EARLIEST)


def _either(found: Mapping[str, Any], offsets: str, time: str, default: str) -> Position:
    if offsets in found and time in found:
        raise OptionError(f"option {time}: contradicts {offsets}; set one of them")
    moment: datetime | None = found.get(time)
    if moment is not None:
        return Position(time=moment)
    named: Position = found.get(offsets, Position(default))
    if offsets == "endingOffsets" and named.name == EARLIEST:
        raise option_table.bad(offsets, EARLIEST, "latest, or numbers by partition as JSON")
    return named


def _columns(found: Mapping[str, Any]) -> tuple[str, ...]:
    body = found.get("body", "binary")
    chosen: tuple[str, ...] = found.get("columns") or DEFAULT
    lower = [name.lower() for name in chosen]
    named = "columns" in found
    if lower == ["all"]:
        lower, named = list(ALL), False
    for name in lower:
        if name not in ALL or lower.count(name) > 1:
            raise OptionError(
                f"option columns: {name} is {'given twice' if name in ALL else 'unknown'}; "
                f"columns are {', '.join(ALL)}; or all"
            )
    if body == "none":
        if BODY in lower and named:
            raise OptionError("option body: none contradicts columns, which names body")
        lower = [name for name in lower if name != BODY]
    return tuple(lower)


def _states(found: Mapping[str, Any]) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(state.lower() for state in found.get("states", ("active",))))
    for state in chosen:
        if state not in STATES:
            raise option_table.bad("states", state, "active, deferred or scheduled, with commas")
    return chosen
