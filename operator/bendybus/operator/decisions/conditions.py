"""The status of manifests: one deterministic function per condition and kind.

What keeps the pods of a bus from running is one sentence each.
"""

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bendybus.crds.manifest import AvailabilityStatus
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.decisions.storage import DataDecision, Identity
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.names import ObjectKey

READY: Final = "Ready"
# As kstatus reads them: only there while they are True.
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
INT64_MAX: Final = 2**63 - 1
ORPHANS_SHOWN: Final = 20
WORDS_SHOWN: Final = 5
TROUBLES_SHOWN: Final = 3
# Reasons that end by themselves, or when what is missing comes; all others need somebody.
_PASSING: Final = {
    Reason.PROGRESSING,
    Reason.PARTITION_UNAVAILABLE,
    Reason.FRONTEND_UNAVAILABLE,
    Reason.NAMESPACE_NOT_FOUND,
    Reason.NAMESPACE_NOT_READY,
    Reason.TOPIC_NOT_FOUND,
}
# A bus whose status has one of these reasons is not starting any more.
_RAN: Final = {Reason.AVAILABLE, Reason.PARTITION_UNAVAILABLE, Reason.FRONTEND_UNAVAILABLE}
CERTIFICATE_OVERDUE: Final = "CertificateOverdue"
MANIFESTS_NOT_SEEN: Final = "ManifestsNotSeen"
ANSWER_NOT_UNDERSTOOD: Final = "AnswerNotUnderstood"
WORKER_ENDED: Final = "WorkerEnded"
VERSION_REFUSED: Final = "VersionRefused"
# Warnings of partitions, as sentences.
WARNINGS: Final = {
    ANSWER_NOT_UNDERSTOOD: "the operator cannot parse its answers and ignores it. Check that "
    "spec.image matches the operator's version; the operator's log has the details.",
    VERSION_REFUSED: "its version and the operator's are not neighbouring ones, and do not work "
    "together. Set spec.image to a version next to the operator's; the operator's log names both.",
    WORKER_ENDED: "its answer took more memory than the operator's process for it may use, and "
    "ended that; the bus is read apart from others, after growing pauses. Check that the pod runs "
    "the image of spec.image; the operator's log has the details.",
    "ClockJump": "the wall clock jumped; expiry is suspended until the clock "
    "has been stable for a while.",
    "DiskLow": "the volume is nearly full; sends are rejected until space is freed. Receive or "
    "purge messages, or enlarge the volume.",
    "TopicFull": "messages of topics that are due wait for room in them. Receive or purge messages "
    "of their subscriptions, or raise maxSizeInMegabytes.",
}
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
Status = dict[str, Any]
TEXT_CHARS_MAX: Final = 300
# What every container waits for when it starts.
_USUAL: Final = ("", "ContainerCreating", "PodInitializing")


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages and bytes of one entity, or of a bus, over the partitions that answer."""

    active: int = 0
    dead_letter: int = 0
    scheduled: int = 0
    deferred: int = 0
    # Of the active and deferred ones: how many are locked now.
    locked: int = 0
    size_bytes: int = 0
    # Could not be forwarded.
    transfer_dead_letter: int = 0
    # Sent to other entities in transactions, not forwarded yet.
    transfer: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.active + other.active,
            self.dead_letter + other.dead_letter,
            self.scheduled + other.scheduled,
            self.deferred + other.deferred,
            self.locked + other.locked,
            self.size_bytes + other.size_bytes,
            self.transfer_dead_letter + other.transfer_dead_letter,
            self.transfer + other.transfer,
        )

    @property
    def messages(self) -> int:
        """Number of messages, whatever state they are in."""
        stored = self.active + self.dead_letter + self.scheduled + self.deferred
        return max(stored + self.transfer_dead_letter + self.transfer, self.locked)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a manifest is Ready, and why."""

    ready: bool
    reason: Reason
    message: str
    # It does not become Ready by itself, whatever its reason.
    stuck: bool = False
    # A call failed: no event tells when a repeat would not.
    failed: bool = False


def ready_condition(
    readiness: Readiness, generation: int, before: Sequence[Mapping[str, Any]], now: dt.datetime
) -> Status:
    """Return the Ready condition."""
    status = "True" if readiness.ready else "False"
    return {
        "type": READY,
        "status": status,
        "reason": readiness.reason.value,
        "message": readiness.message,
        "lastTransitionTime": _since(READY, status, before, now),
        "observedGeneration": generation,
    }


def progress(
    readiness: Readiness, generation: int, before: Sequence[Mapping[str, Any]], now: dt.datetime
) -> list[Status]:
    """Return Reconciling or Stalled for what is not Ready, for tools that know kstatus."""
    if readiness.ready:
        return []
    passes = readiness.reason in _PASSING and not readiness.stuck
    made = _warning(RECONCILING if passes else STALLED, readiness.message, generation, before, now)
    return [made | {"reason": readiness.reason.value}]


def _warning(
    kind: str,
    message: str,
    generation: int,
    before: Sequence[Mapping[str, Any]],
    now: dt.datetime,
) -> Status:
    """Return a condition that is there only while it is True; its reason is its type."""
    return {
        "type": kind,
        "status": "True",
        "reason": kind,
        "message": message,
        "lastTransitionTime": _since(kind, "True", before, now),
        "observedGeneration": generation,
    }


def warnings(
    warned: Mapping[str, Collection[int]],
    generation: int,
    before: Sequence[Mapping[str, Any]],
    now: dt.datetime,
) -> list[Status]:
    """Return a condition per warning of partitions; `warned`: warning → partitions."""
    return [
        _warning(
            kind,
            f"{_named(partitions)}: {WARNINGS.get(kind, 'see its log.')}",
            generation,
            before,
            now,
        )
        for kind, partitions in sorted(warned.items())
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
    message = (
        f"the certificate in {', '.join(overdue)} should have been renewed by now; the bus stops "
        "when it expires. See the log of the operator, or of cert-manager."
    )
    return [_warning(CERTIFICATE_OVERDUE, message, generation, before, now)]


def manifests_not_seen(
    unseen: Sequence[str],
    not_served: Sequence[str],
    generation: int,
    before: Sequence[Mapping[str, Any]],
    now: dt.datetime,
) -> list[Status]:
    """Return a condition if entities have no manifest in the namespaces that are watched."""
    if not unseen:
        return []
    message = (
        f"no manifest found for {_some(unseen)}. It may be in {_some(not_served)}, which this "
        "operator does not watch; these entities stay as they are. Add these namespaces to "
        "watchNamespaces, or remove them from spec.allowedNamespaces: then entities without a "
        "manifest are orphaned."
    )
    return [_warning(MANIFESTS_NOT_SEEN, message, generation, before, now)]


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
    """Return the readiness of an object with unavailable partitions, None if none is."""
    if not missing:
        return None
    message = f"{_named(missing)} unavailable; {what}"
    return Readiness(False, Reason.PARTITION_UNAVAILABLE, message)


def entity_readiness(
    entity: Entity,
    unreachable: Collection[int],
    behind: Collection[int],
    *,
    topic: Entity | None = None,
) -> Readiness:
    """Return whether an entity in the catalogue is fully available.

    `unreachable`: partitions that do not answer; `behind`: those that lack its latest change;
    `topic`: of a subscription.
    """
    held_by = set(entity.partitions())
    if held_by <= set(unreachable):
        what = "its messages wait, and sends to it fail."
    else:
        what = "messages stored there wait, and keyed sends to it fail."
    readiness = of_partitions(held_by & set(unreachable), what)
    if readiness is not None:
        return readiness
    late = held_by & set(behind)
    if late:
        named = ", ".join(str(partition) for partition in sorted(late))
        return Readiness(
            False, Reason.PROGRESSING, f"the change is being copied to partition {named}."
        )
    if topic is not None and topic.orphaned:
        return Readiness(
            False,
            Reason.TOPIC_ORPHANED,
            f"topic {topic.name!r} accepts no messages: its manifest was deleted. What the "
            "subscription holds can be received. Adopt the topic with a manifest.",
        )
    where = (
        f"spread over {entity.partition_count} partitions"
        if entity.partitioned
        else f"stored in partition {entity.home_partition}"
    )
    return Readiness(True, Reason.AVAILABLE, f"{entity.name} is {where}.")


def entity_facts(
    entity: Entity, unreachable: Collection[int], counts: Counts | None, *, subscriptions: int = 0
) -> Status:
    """Return the part of an entity's status that comes from the bus."""
    limited = bool(set(entity.partitions()) & set(unreachable))
    facts: Status = {
        "entityUid": entity.uid,
        "partitions": entity.partition_count,
        "availabilityStatus": _availability(limited).value,
    }
    if entity.kind is not EntityKind.SUBSCRIPTION:
        # What subscriptions hold counts to the size of their topic.
        each = entity.description.max_size_in_megabytes
        facts["maxSizeInMegabytesTotal"] = each * entity.partition_count
    if entity.kind is EntityKind.TOPIC:
        facts["subscriptionCount"] = subscriptions
    if not entity.partitioned:
        facts["homePartition"] = entity.home_partition
    return facts | (_counted(counts) if counts is not None else {})


@dataclass(frozen=True, slots=True)
class PodTrouble:
    """Why a pod does not run. `stuck`: its container does not start, or does not stay."""

    text: str
    stuck: bool


def bus_readiness(
    decision: DataDecision,
    unreachable: Collection[int],
    frontends_ready: int,
    *,
    started: bool,
    troubles: Sequence[PodTrouble] = (),
) -> Readiness:
    """Return whether a bus is fully available. `started`: all partitions have answered once.

    `troubles`: what keeps its pods from running.
    """
    found = _running(decision, unreachable, frontends_ready, started=started)
    if found.ready or decision.reason is not None or not troubles:
        return found
    shown = ". ".join(each.text for each in troubles[:TROUBLES_SHOWN])
    stuck = any(each.stuck for each in troubles)
    return Readiness(False, found.reason, f"{found.message} {shown}", stuck)


def _running(
    decision: DataDecision, unreachable: Collection[int], frontends_ready: int, *, started: bool
) -> Readiness:
    if decision.reason is not None:
        return Readiness(False, decision.reason, decision.message)
    if decision.identity is not None and len(unreachable) == decision.identity.partition_count:
        what = "no message is stored or delivered until one answers."
    elif frontends_ready < 1:
        what = "no front-end pod is ready, either: clients cannot connect."
    else:
        what = "the bus works, except for messages stored there and keyed sends to it."
    missing = of_partitions(unreachable, what)
    if missing is not None and not started:
        message = f"{_named(unreachable)} not heard from yet; pods may be starting still."
        return Readiness(False, Reason.PROGRESSING, message)
    if missing is not None:
        return missing
    if frontends_ready < 1:
        reason = Reason.FRONTEND_UNAVAILABLE if started else Reason.PROGRESSING
        return Readiness(False, reason, "no front-end pod is ready; clients cannot connect.")
    return Readiness(True, Reason.AVAILABLE, "all partitions and the front end are available.")


def has_run(status: Mapping[str, Any]) -> bool:
    """Whether the status shows that all partitions of the bus were available before."""
    reasons = {each.get("reason") for each in status.get("conditions") or []}
    return not reasons.isdisjoint(_RAN)


def bus_facts(
    bus: ObjectKey,
    identity: Identity | None,
    unreachable: Collection[int],
    live: Collection[Entity],
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
        **_numbers(live),
        "orphanedCount": len(orphaned),
        "orphaned": sorted(entity.name for entity in orphaned)[:ORPHANS_SHOWN],
    }
    return facts | (_counted(counts) if counts is not None else {})


def _numbers(live: Collection[Entity]) -> Status:
    found = Counter(entity.kind for entity in live)
    shown = {f"{kind}s": found[kind] for kind in EntityKind if found[kind]}
    return {"queues": 0, **shown}


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
            "transferMessageCount": _shown(counts.transfer),
            "transferDeadLetterMessageCount": _shown(counts.transfer_dead_letter),
        },
        "sizeInBytes": _shown(counts.size_bytes),
    }


def _shown(count: int) -> int:
    """Return a sum as the schema allows it: the API server rejects more than an int64."""
    return min(count, INT64_MAX)


def troubles_of(pods: Iterable[Mapping[str, Any]]) -> list[PodTrouble]:
    """Return the troubles of pods, the stuck ones first."""
    found = [trouble for trouble in map(_trouble, pods) if trouble is not None]
    return sorted(found, key=lambda trouble: (not trouble.stuck, trouble.text))


def _trouble(pod: Mapping[str, Any]) -> PodTrouble | None:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        if container.get("ready"):
            continue
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = str(waiting.get("reason") or "")
        ended = (container.get("lastState") or {}).get("terminated") or {}
        if reason not in _USUAL:
            why = _last_error(ended) if ended else _text(waiting.get("message"))
            return PodTrouble(f"pod {name}: {_text(reason)}" + (f", {why}" if why else ""), True)
        if ended:
            return PodTrouble(f"pod {name}: restarted, {_last_error(ended)}", False)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            what = f"{_text(condition.get('reason'))}: {_text(condition.get('message'))}"
            return PodTrouble(f"pod {name}: {what}", False)
    return None


def _last_error(ended: Mapping[str, Any]) -> str:
    what = _text(ended.get("reason")) or "Error"
    message = _text(ended.get("message"))
    return f"last error: {message}" if message else f"{what} with {ended.get('exitCode')}"


def _text(text: Any) -> str:
    """Return a text of a pod as a status may carry it."""
    line = " ".join(str(text or "").split())
    shown = "".join(each if each.isprintable() else "?" for each in line[:TEXT_CHARS_MAX])
    return shown if len(line) <= TEXT_CHARS_MAX else f"{shown}…"
