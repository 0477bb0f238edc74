"""The status of manifests: one pure function per condition and kind."""

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bendybus.crds.manifest import AvailabilityStatus
from bendybus.domain.entity import Entity
from bendybus.operator.decisions.data_identity import DataDecision, Identity
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.names import ObjectKey

READY: Final = "Ready"
INT64_MAX: Final = 2**63 - 1
ORPHANS_SHOWN: Final = 20
WORDS_SHOWN: Final = 5
# A bus that says one of these is not starting any more, whoever looks at it now.
_RAN: Final = {Reason.AVAILABLE, Reason.PARTITION_UNAVAILABLE, Reason.FRONTEND_UNAVAILABLE}
CERTIFICATE_OVERDUE: Final = "CertificateOverdue"
MANIFESTS_NOT_SEEN: Final = "ManifestsNotSeen"
ANSWER_NOT_UNDERSTOOD: Final = "AnswerNotUnderstood"
# What partitions warn of, in words for people.
WARNINGS: Final = {
    ANSWER_NOT_UNDERSTOOD: "the operator cannot read its answers and ignores it. Does spec.image "
    "fit the operator's version? The operator's log has the details.",
    "ClockJump": "the wall clock jumped; nothing expires until it has been steady for a while.",
    "DiskLow": "the volume is nearly full; sends are refused until there is room again. Receive "
    "or purge messages, or let the volume grow.",
}
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages and bytes of one queue, or of a bus, over the partitions that answer."""

    active: int = 0
    dead_letter: int = 0
    scheduled: int = 0
    deferred: int = 0
    # Of the active and deferred ones: how many are locked now.
    locked: int = 0
    size_bytes: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.active + other.active,
            self.dead_letter + other.dead_letter,
            self.scheduled + other.scheduled,
            self.deferred + other.deferred,
            self.locked + other.locked,
            self.size_bytes + other.size_bytes,
        )

    @property
    def messages(self) -> int:
        """Number of messages, whatever state they are in."""
        stored = self.active + self.dead_letter + self.scheduled + self.deferred
        return max(stored, self.locked)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a manifest is Ready; True, False or Unknown."""

    ready: bool
    reason: Reason
    message: str


def ready_condition(
    readiness: Readiness, generation: int, before: Sequence[Mapping[str, Any]], now: dt.datetime
) -> Status:
    """Return the Ready condition; the time of its last transition stays while it says the same."""
    status = "True" if readiness.ready else "False"
    since = _since(READY, status, before, now)
    return {
        "type": READY,
        "status": status,
        "reason": readiness.reason.value,
        "message": readiness.message,
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }


def warnings(
    warned: Mapping[str, Collection[int]],
    generation: int,
    before: Sequence[Mapping[str, Any]],
    now: dt.datetime,
) -> list[Status]:
    """Return a condition for everything that partitions warn of; none when all is well."""
    return [
        {
            "type": word,
            "status": "True",
            "reason": word,
            "message": f"{_named(partitions)}: {WARNINGS.get(word, 'see its log.')}",
            "lastTransitionTime": _since(word, "True", before, now),
            "observedGeneration": generation,
        }
        for word, partitions in sorted(warned.items())
    ]


def certificates(
    overdue: Sequence[str],
    generation: int,
    before: Sequence[Mapping[str, Any]],
    now: dt.datetime,
) -> list[Status]:
    """Return a condition if certificates are not renewed in time; `overdue`: their Secrets."""
    if not overdue:
        return []
    return [
        {
            "type": CERTIFICATE_OVERDUE,
            "status": "True",
            "reason": CERTIFICATE_OVERDUE,
            "message": f"the certificate in {', '.join(overdue)} should have been renewed by now; "
            "when it ends, the bus stops. The log of the operator, or of cert-manager, says why.",
            "lastTransitionTime": _since(CERTIFICATE_OVERDUE, "True", before, now),
            "observedGeneration": generation,
        }
    ]


def manifests_not_seen(
    queues: Sequence[str],
    not_served: Sequence[str],
    generation: int,
    before: Sequence[Mapping[str, Any]],
    now: dt.datetime,
) -> list[Status]:
    """Return a condition if queues have no manifest that is seen; where else it may be is told."""
    if not queues:
        return []
    return [
        {
            "type": MANIFESTS_NOT_SEEN,
            "status": "True",
            "reason": MANIFESTS_NOT_SEEN,
            "message": f"no manifest of {_some(queues)} is seen. It may be in {_some(not_served)}, "
            "which this operator does not serve, so what is there stays as it is, and in use. "
            "Serve it (watchNamespaces), or take it from spec.allowedNamespaces: then queues "
            "without a manifest are orphaned.",
            "lastTransitionTime": _since(MANIFESTS_NOT_SEEN, "True", before, now),
            "observedGeneration": generation,
        }
    ]


def _some(words: Sequence[str]) -> str:
    more = len(words) - WORDS_SHOWN
    shown = ", ".join(words[:WORDS_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def _since(kind: str, status: str, before: Sequence[Mapping[str, Any]], now: dt.datetime) -> str:
    for old in before:
        if old.get("type") == kind and old.get("status") == status:
            return str(old.get("lastTransitionTime") or now.strftime(_TIME))
    return now.strftime(_TIME)


def _named(partitions: Collection[int]) -> str:
    word = "partition" if len(partitions) == 1 else "partitions"
    return f"{word} {', '.join(str(partition) for partition in sorted(partitions))}"


def of_partitions(missing: Collection[int], what: str) -> Readiness | None:
    """Return the verdict that partitions are unavailable, None if none is."""
    if not missing:
        return None
    message = f"{_named(missing)} cannot be reached; {what}"
    return Readiness(False, Reason.PARTITION_UNAVAILABLE, message)


def queue_readiness(
    entity: Entity, unreachable: Collection[int], behind: Collection[int]
) -> Readiness:
    """Return whether a queue that the registrar knows can be used in full.

    `unreachable`: partitions that do not answer; `behind`: those that lack its latest change.
    """
    held_by = set(entity.partitions())
    readiness = of_partitions(
        held_by & set(unreachable), "what is kept there waits, and keyed sends to it fail."
    )
    if readiness is not None:
        return readiness
    late = held_by & set(behind)
    if late:
        named = ", ".join(str(partition) for partition in sorted(late))
        return Readiness(False, Reason.PROGRESSING, f"the change is on its way to {named}.")
    where = (
        f"spread over {entity.partition_count} partitions"
        if entity.partitioned
        else f"whole in partition {entity.home_partition}"
    )
    return Readiness(True, Reason.AVAILABLE, f"{entity.name} is {where}.")


def queue_facts(entity: Entity, unreachable: Collection[int], counts: Counts | None) -> Status:
    """Return the part of a queue's status that comes from the bus."""
    limited = bool(set(entity.partitions()) & set(unreachable))
    facts: Status = {
        "entityUid": entity.uid,
        "partitions": entity.partition_count,
        "availabilityStatus": _availability(limited).value,
        "maxSizeInMegabytesTotal": entity.queue.max_size_in_megabytes * entity.partition_count,
    }
    if not entity.partitioned:
        facts["homePartition"] = entity.home_partition
    return facts | (_counted(counts) if counts is not None else {})


def bus_readiness(
    decision: DataDecision, unreachable: Collection[int], frontends_ready: int, *, started: bool
) -> Readiness:
    """Return whether a bus can be used in full. `started`: all partitions have answered once."""
    if decision.reason is not None:
        return Readiness(False, decision.reason, decision.message)
    missing = of_partitions(
        unreachable, "the bus works without, except for what is kept there and keyed sends to it."
    )
    if missing is not None and not started:
        return Readiness(
            False, Reason.PROGRESSING, missing.message.split(";")[0] + " yet; pods are starting."
        )
    if missing is not None:
        return missing
    if frontends_ready < 1:
        reason = Reason.FRONTEND_UNAVAILABLE if started else Reason.PROGRESSING
        return Readiness(False, reason, "no front-end pod is ready; clients cannot connect.")
    return Readiness(True, Reason.AVAILABLE, "all partitions and the front end answer.")


def has_run(status: Mapping[str, Any]) -> bool:
    """Whether a bus whose status this is has had all its partitions answering before."""
    reasons = {each.get("reason") for each in status.get("conditions") or []}
    return not reasons.isdisjoint(_RAN)


def bus_facts(
    bus: ObjectKey,
    identity: Identity | None,
    unreachable: Collection[int],
    queues: Collection[Entity],
    orphaned: Sequence[Entity],
    counts: Counts | None,
) -> Status:
    """Return the part of a BusNamespace's status that comes from the bus."""
    if identity is None:
        return {}
    facts: Status = {
        "partitions": identity.partition_count,
        "readyPartitions": identity.partition_count - len(unreachable),
        "availabilityStatus": _availability(bool(unreachable)).value,
        "endpoint": f"sb://{names.frontend_host(bus)}:{names.FRONTEND_PORT}",
        "connectionSecret": names.access_secret(bus, names.ROOT_RULE),
        "queues": len(queues),
        "orphanedCount": len(orphaned),
        "orphaned": sorted(entity.name for entity in orphaned)[:ORPHANS_SHOWN],
    }
    return facts | (_counted(counts) if counts is not None else {})


def _availability(limited: bool) -> AvailabilityStatus:
    return AvailabilityStatus.LIMITED if limited else AvailabilityStatus.AVAILABLE


def _counted(counts: Counts) -> Status:
    return {
        "countDetails": {
            "activeMessageCount": _shown(counts.active),
            "deadLetterMessageCount": _shown(counts.dead_letter),
            "scheduledMessageCount": _shown(counts.scheduled),
            "deferredMessageCount": _shown(counts.deferred),
            "lockedMessageCount": _shown(counts.locked),
            "transferMessageCount": 0,
            "transferDeadLetterMessageCount": 0,
        },
        "sizeInBytes": _shown(counts.size_bytes),
    }


def _shown(count: int) -> int:
    """Return a sum as the schema allows it: the API server rejects more than an int64."""
    return min(count, INT64_MAX)
