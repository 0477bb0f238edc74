"""The columns of a message, as Spark sees them. Text only: no Spark, no Arrow, no protobuf."""

from dataclasses import dataclass
from typing import Final

BODY: Final = "body"
HEAD: Final = "head"
RANGE: Final = "range"
# In lines of JSON, in place of `body`: one that is not UTF-8 text, in base64.
BODY_BASE64: Final = "body_base64"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its type in Spark's DDL, whether rows to write may have it, what it holds."""

    name: str
    type: str
    nullable: bool
    written: bool
    holds: str


COLUMNS: Final = (
    Column("partition", "int", False, False, "the partition of the bus"),
    Column("sequence_number", "bigint", False, False, "rises within a partition"),
    Column("message_id", "string", True, True, "names the message for duplicate detection"),
    Column("session_id", "string", True, True, "the session, which is also the partition key"),
    Column("partition_key", "string", True, True, "what decides the partition"),
    Column("correlation_id", "string", True, True, "for the application"),
    Column("subject", "string", True, True, "for the application and for filters"),
    Column("content_type", "string", True, True, "such as application/json"),
    Column("to", "string", True, True, "for the application"),
    Column("reply_to", "string", True, True, "for the application"),
    Column(BODY, "binary", True, True, "the body; text or JSON where an AMQP value was sent"),
    Column("properties", "map<string,string>", True, True,
           "application properties, as text; strings when written"),
    Column("enqueued_at", "timestamp", False, False, "when the bus accepted it"),
    Column("scheduled_at", "timestamp", True, False, "when it became or becomes active"),
    Column(
        *("expires_at", "timestamp", True, False),
        "when its time to live ends; null: never, or after the year 9999",
    ),
    Column("delivery_count", "int", False, False, "how often it was delivered"),
    Column("state", "string", False, False, "active, deferred or scheduled"),
    Column("enqueued_sequence_number", "bigint", True, False, "the first one, if another"),
    Column("dead_letter_reason", "string", True, False, "why it was dead-lettered"),
    Column("dead_letter_description", "string", True, False, "more on that"),
    Column("dead_letter_source", "string", True, False, "where it was dead-lettered"),
    Column("entity", "string", False, True, "the path of its entity; when written: where to"),
    Column(HEAD, "binary", True, True, "properties as they are stored, for lossless copies"),
    Column(RANGE, "string", False, False, "what its task read: INCARNATION:AFTER:UPTO"),
)  # fmt: skip
# Which rows to write may have, and no message has.
WRITTEN_ONLY: Final = (
    Column("topic", "string", True, True, "the queue or topic, as `entity`"),
    Column("time_to_live_ms", "bigint", True, True, "milliseconds"),
    Column("scheduled_enqueue_time", "timestamp", True, True, "when it shall become active"),
)
BY_NAME: Final = {column.name: column for column in COLUMNS}
ALL: Final = tuple(BY_NAME)
DEFAULT: Final = tuple(name for name in ALL if name not in (HEAD, RANGE))
BY_WRITTEN: Final = {column.name: column for column in (*COLUMNS, *WRITTEN_ONLY) if column.written}
WRITTEN: Final = tuple(BY_WRITTEN)
# Of rows that were read from the bus: they are passed over when written.
PASSED_OVER: Final = tuple(column.name for column in COLUMNS if not column.written)


def ddl(names: tuple[str, ...], body: str) -> str:
    """Return the schema of some columns. `body`: the type of the body."""
    parts = []
    for name in names:
        column = BY_NAME[name]
        type_ = body if name == BODY else column.type
        parts.append(f"`{name}` {type_}{'' if column.nullable else ' NOT NULL'}")
    return ", ".join(parts)
