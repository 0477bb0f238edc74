"""Dead letters on their way back to their queue: the copy is stored, then the original completed.

A queue that detects duplicates remembers the MessageId of the original, and would drop a copy that
has the same. So there the copy gets one of its own, made from the original's id and number: if the
command ends between the two steps, the next one sends the same id, and the queue drops the second
copy. The original id stays in the property `ResubmittedMessageId`. Elsewhere it is at least once.
"""

import copy
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from bendybus.cli.bus import messages
from bendybus.cli.errors import UsageError
from bendybus.cli.output import json_values
from bendybus.client import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusSubQueue
from bendybus.client.amqp import AmqpAnnotatedMessage, AmqpMessageProperties
from bendybus.client.exceptions import InvalidArgumentError, MessageSizeExceededError
from bendybus.domain import subscription_name

ORIGINAL_ID: Final = "ResubmittedMessageId"
_SCHEDULED: Final = b"x-opt-scheduled-enqueue-time"

# Raised for one message, which the next ones do not share.
_OF_ONE: Final = (MessageSizeExceededError, InvalidArgumentError, TypeError)

Step = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on a dead letter: a field, or a property, is a text."""

    name: str
    value: str

    def holds(self, facts: dict[str, Any]) -> bool:
        """Return whether it holds for a message, as `messages.shown` shows it."""
        found = facts.get(self.name)
        if found is None:
            found = facts.get("application_properties", {}).get(self.name)
        return found is not None and str(found) == self.value


@dataclass(frozen=True, slots=True)
class Resubmit:
    """Which dead letters to send again, and where; `detects`: duplicates are detected there."""

    most: int
    wait_s: float
    destination: str
    numbers: frozenset[int] = frozenset()
    where: tuple[Where, ...] = ()
    detects: bool = True
    dry_run: bool = False
    # As the client names it.
    sub_queue: str = ServiceBusSubQueue.DEAD_LETTER.value

    def wants(self, facts: dict[str, Any]) -> bool:
        """Return whether a dead letter is one of them."""
        named = not self.numbers or facts["sequence_number"] in self.numbers
        return named and all(condition.holds(facts) for condition in self.where)


@dataclass(slots=True)
class Outcome:
    """What was done. `stopped`: locks expired before all dead letters were examined.

    `missing`: numbers that were asked for, and are of no dead letter. `later`: dead letters whose
    messages were sent after the command began, such as copies of its own that expired.
    """

    resubmitted: int = 0
    seen: int = 0
    stopped: bool = False
    missing: tuple[int, ...] = ()
    later: int = 0
    # Dead letters whose copies are refused for what they are, such as too large, each with why.
    refused: list[tuple[int, str]] = field(default_factory=list)


def destination(queue: str, given: str, *, undelivered: bool) -> str:
    """Return where dead letters of a queue are sent again. Raises UsageError.

    What a transaction sent to another entity is no message of the one whose transfer dead letter
    it became.
    """
    if undelivered and not given:
        raise UsageError(
            "--transfer-dead-letters needs --to: the queue or topic that their descriptions name, "
            f"or {queue!r}, if that forwards its messages there."
        )
    # No message can be sent to a subscription: its topic decides again who gets it.
    return given or subscription_name.family(queue)


def parse_where(text: str) -> Where:
    """Return the condition in `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--where: must be NAME=VALUE (got {text!r}).")
    return Where({"reason": "dead_letter_reason"}.get(name, name), value)


def resubmit(bus: ServiceBusClient, queue: str, wanted: Resubmit, step: Step) -> Outcome:
    """Send dead letters of a queue again, each completed after its copy is stored."""
    done, began = Outcome(), datetime.now(UTC)
    # Received, and not completed: given back in the end, uncounted.
    held: dict[int, ServiceBusReceivedMessage] = {}
    missing = set(wanted.numbers)
    give_back_at = float("inf")
    with (
        bus.get_queue_receiver(queue, sub_queue=wanted.sub_queue) as receiver,
        bus.get_queue_sender(wanted.destination) as sender,
    ):
        try:
            while done.resubmitted < wanted.most and (missing or not wanted.numbers):
                if time.monotonic() >= give_back_at:
                    done.stopped = True
                    break
                batch = receiver.receive_messages(messages.READ_AT_ONCE, wanted.wait_s)
                if not batch:
                    done.missing = tuple(sorted(missing))
                    break
                done.seen += len(batch)
                held.update((id(message), message) for message in batch)
                for message in batch:
                    facts = messages.shown(message)
                    missing.discard(facts["sequence_number"])
                    if (message.enqueued_time_utc or began) > began:
                        done.later += 1
                        continue
                    if done.resubmitted >= wanted.most or not wanted.wants(facts):
                        continue
                    if not wanted.dry_run:
                        try:
                            sender.send_messages(copy_of(message, own_id=wanted.detects))
                        except _OF_ONE as error:
                            done.refused.append((facts["sequence_number"], str(error)))
                            continue
                        receiver.complete_message(message)
                        del held[id(message)]
                    done.resubmitted += 1
                    step(1)
                if held and give_back_at == float("inf"):
                    give_back_at = time.monotonic() + messages.patience_s(batch[0])
        finally:
            messages.give_back(receiver, list(held.values()))
    return done


def copy_of(message: ServiceBusReceivedMessage, *, own_id: bool) -> AmqpAnnotatedMessage:
    """Return the message as it was sent, without the properties of dead-lettering."""
    # The view of a copy: what is received stays as it is.
    raw = copy.copy(message).raw_amqp_message
    properties = {
        key: value
        for key, value in (message.application_properties or {}).items()
        if json_values.key_text(key) not in messages.ADDED_PROPERTIES
    }
    if own_id and isinstance(raw.properties, AmqpMessageProperties):
        if message.message_id:
            properties.setdefault(ORIGINAL_ID.encode(), message.message_id)
        raw.properties.message_id = _id_of(message)
    raw.application_properties = properties or None
    # It is due already; scheduled messages are not dead letters.
    (raw.annotations or {}).pop(_SCHEDULED, None)
    return raw


def _id_of(message: ServiceBusReceivedMessage) -> str:
    """Return the same id for the same dead letter, and another one for every other."""
    enqueued = message.enqueued_time_utc
    name = f"{message.message_id}\n{message.sequence_number}\n{enqueued and enqueued.isoformat()}"
    return f"resubmit-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
