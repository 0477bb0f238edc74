"""Messages on their way into a bus: in batches by key, and from where an import stopped.

An import that stops leaves `FILE.sent` beside its file: which lines are stored, in which queue, and
what they are. `--resume` goes on from there if they still are that. A complete import removes it.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from bendybus.cli.errors import CliError
from bendybus.cli.output import json_lines
from bendybus.cli.output.json_lines import Outgoing
from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.amqp import AmqpAnnotatedMessage
from bendybus.client.exceptions import OutcomeUnknownError, ServiceBusError
from bendybus.client.messages import encode, raw_amqp_message
from bendybus.domain import limits

BATCH: Final = 500
_BATCH_BYTES: Final = limits.STANDARD_BATCH_BYTES_MAX // 2
_OVERHEAD_BYTES: Final = 128
SUFFIX: Final = ".sent"

Step = Callable[[int], None]


@dataclass(slots=True)
class Progress:
    """Which lines are stored: all up to `through`, and `also` some of those after it."""

    through: int = 0
    also: set[int] = field(default_factory=set)
    sent: int = 0
    # Under way when it stopped: the outcome of these lines is not known.
    uncertain: int = 0
    # Messages that were read, without those that were stored before.
    taken: int = 0

    @property
    def last(self) -> int:
        """The last line that is stored; 0: none is."""
        return max(self.through, *self.also, 0)

    def has(self, line: int) -> bool:
        """Return whether a line is stored."""
        return line <= self.through or line in self.also

    def store(self, batch: list[Outgoing]) -> None:
        """Note that a batch is stored."""
        self.also.update(each.line for each in batch)
        self.sent += len(batch)

    def close(self, last: int) -> None:
        """Note that everything up to a line is stored."""
        self.through = max(self.through, last)
        self.also = {line for line in self.also if line > self.through}


def send(
    bus: ServiceBusClient,
    queue: str,
    messages: Iterable[Outgoing | None],
    step: Step,
    progress: Progress | None = None,
) -> int:
    """Send messages in batches that share a key, in the order of each key; return how many.

    None among them: what came before is sent now, since no more comes for a moment.
    """
    done = progress or Progress()
    # As of now: copies of a line that is sent several times have its number.
    before = replace(done, also=set(done.also))
    with bus.get_queue_sender(queue) as sender:
        for chunk in _chunks(_fresh(messages, before, done)):
            for batch in _by_key(chunk).values():
                made = [message_of(each) for each in batch]
                done.uncertain = len(batch)
                try:
                    # Where MessageId is the key (duplicate detection), a batch has many keys.
                    sender.send_messages(made, split_by_partition_key=True)
                except (ServiceBusError, ValueError, TypeError) as error:
                    done.uncertain = 0 if _is_definite(error, batch) else len(batch)
                    raise
                done.uncertain = 0
                done.store(batch)
                step(len(batch))
            done.close(chunk[-1].line)
    return done.sent


def _fresh(
    messages: Iterable[Outgoing | None], before: Progress, done: Progress
) -> Iterator[Outgoing | None]:
    """Yield the messages that are not stored yet, and count them."""
    for each in messages:
        if each is None:
            yield None
        elif not before.has(each.line or 2**62):
            done.taken += 1
            yield each


def message_of(given: Outgoing) -> ServiceBusMessage:
    """Return the client's message."""
    arguments = dict(given.properties)
    own: dict[str, Any] = {
        name: arguments.pop(name) for name in json_lines.AMQP if name in arguments
    }
    made = ServiceBusMessage(given.body if given.kind == "data" else b"", **arguments)
    raw_amqp_message.set_own_fields(made, own)
    if given.kind == "data":
        return made
    body: dict[str, Any] = {f"{given.kind}_body": given.body}
    raw = made.raw_amqp_message
    made = encode.as_message(
        AmqpAnnotatedMessage(
            header=raw.header,
            properties=raw.properties,
            application_properties=raw.application_properties,
            annotations=raw.annotations,
            footer=raw.footer,
            **body,
        )
    )
    if "amqp_escapes" in own:
        raw_amqp_message.set_own_fields(made, {"amqp_escapes": own["amqp_escapes"]})
    return made


def read_progress(file: Path, queue: str) -> Progress:
    """Return where an import of `file` to `queue` stopped. Raises CliError if none did.

    Or if the lines that are stored are others now: the rest would be sent without them.
    """
    path = _beside(file)
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        found = Progress(int(facts["through_line"]), {int(line) for line in facts["also_lines"]})
        stored_in, stored = str(facts["queue"]), facts.get("sha256")
    except FileNotFoundError as error:
        raise CliError(
            f"{path} does not exist: no import of {file.name} was interrupted. Leave out --resume."
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CliError(f"{path} cannot be read ({error}). Remove it to start over.") from error
    if stored_in != queue:
        raise CliError(
            f"{path} is of an import to {stored_in!r}, not to {queue!r}. Leave out --resume to "
            "start over."
        )
    # Versions before 0.11.1 did not write it.
    if stored is not None and stored != _digest(file, found.last):
        raise CliError(
            f"{file}: lines up to {found.last}, which {path.name} says are stored, have changed "
            "since. Leave out --resume to start over."
        )
    return found


def keep_progress(file: Path, queue: str, progress: Progress) -> bool:
    """Write where an import stopped; return whether that could be written."""
    try:
        facts = {
            "queue": queue,
            "through_line": progress.through,
            "also_lines": sorted(progress.also),
            "sha256": _digest(file, progress.last),
        }
        _beside(file).write_text(json.dumps(facts) + "\n", encoding="utf-8")
    except OSError:
        return False
    return True


def _digest(file: Path, lines: int) -> str:
    """Return the SHA-256 of the first lines of a file."""
    made = hashlib.sha256()
    with file.open("rb") as opened:
        for line in itertools.islice(opened, lines):
            # The last line may get an end later.
            made.update(line.rstrip(b"\r\n") + b"\n")
    return made.hexdigest()


def forget_progress(file: Path) -> None:
    """Delete what an import that stopped left, since one is complete."""
    _beside(file).unlink(missing_ok=True)


def _is_definite(error: Exception, batch: list[Outgoing]) -> bool:
    """Return whether nothing of a batch is stored when sending it failed like this."""
    if isinstance(error, ValueError | TypeError):
        # Refused at the call: nothing left this machine.
        return True
    keyed = any(batch[0].properties.get(name) for name in ("session_id", "partition_key"))
    # Without a key it may have been split, and a part of it be stored.
    whole = keyed or len(batch) == 1
    return whole and not isinstance(error, OutcomeUnknownError)


def _beside(file: Path) -> Path:
    return file.with_name(file.name + SUFFIX)


def _chunks(messages: Iterable[Outgoing | None]) -> Iterator[list[Outgoing]]:
    """Return the messages in batches that fit the smallest limit of a batch; None ends one."""
    chunk: list[Outgoing] = []
    size = 0
    for each in messages:
        if each is None:
            if chunk:
                yield chunk
            chunk, size = [], 0
            continue
        own = each.size_bytes + _OVERHEAD_BYTES
        if chunk and (len(chunk) >= BATCH or size + own > _BATCH_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        size += own
    if chunk:
        yield chunk


def _by_key(messages: Iterable[Outgoing]) -> dict[object, list[Outgoing]]:
    """Return the messages by key: a batch is one unit and so goes to one partition."""
    groups: dict[object, list[Outgoing]] = {}
    for each in messages:
        properties = each.properties
        key = (properties.get("session_id"), properties.get("partition_key"))
        groups.setdefault(key, []).append(each)
    return groups
