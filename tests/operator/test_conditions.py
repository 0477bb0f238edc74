"""Status as a function of what is known."""

import datetime as dt

import pytest

from bendybus.crds.entity_manifest import QueueStatus
from bendybus.crds.namespace_manifest import BusNamespaceStatus
from bendybus.domain.limits import Tier
from bendybus.operator.decisions import conditions
from bendybus.operator.decisions.conditions import Counts, PodTrouble, Readiness
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.decisions.storage import DataDecision, Identity
from tests.operator.manifests import BUS, bus, entry, queue

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
STANDING = DataDecision(Identity("bus-1", Tier.PREMIUM, 2))
STANDARD = bus(sku={"tier": "Standard"})


def test_a_condition_keeps_its_time_while_it_says_the_same() -> None:
    before = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}]

    same = conditions.ready_condition(Readiness(False, Reason.REFUSED, "no"), 3, before, NOW)
    other = conditions.ready_condition(Readiness(True, Reason.AVAILABLE, "yes"), 3, before, NOW)

    assert same["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert other["lastTransitionTime"] == "2026-11-21T12:00:00Z"
    assert (other["status"], other["observedGeneration"]) == ("True", 3)


def test_a_partitioned_queue_is_not_ready_while_one_partition_is_away() -> None:
    readiness = conditions.entity_readiness(entry(queue()), {1}, set())

    assert (readiness.ready, readiness.reason) == (False, Reason.PARTITION_UNAVAILABLE)
    assert readiness.message.startswith("partition 1 unavailable; ")


def test_a_plain_queue_cares_for_its_home_only() -> None:
    plain = entry(queue(), STANDARD)
    others = set(range(16)) - {plain.home_partition}

    assert conditions.entity_readiness(plain, others, others).ready
    assert not conditions.entity_readiness(plain, {plain.home_partition}, set()).ready


def test_a_queue_is_not_ready_before_every_partition_has_the_change() -> None:
    readiness = conditions.entity_readiness(entry(queue()), set(), {0, 1})

    assert (readiness.ready, readiness.reason) == (False, Reason.PROGRESSING)
    assert readiness.message == "the change is being copied to partition 0, 1."


def test_the_facts_of_a_queue() -> None:
    spread = conditions.entity_facts(entry(queue()), {1}, Counts(3, 2, 1, size_bytes=9))
    plain = conditions.entity_facts(entry(queue(), STANDARD), set(), None)

    assert spread["availabilityStatus"] == "Limited"
    assert spread["maxSizeInMegabytesTotal"] == 2 * 1024
    assert spread["countDetails"]["deadLetterMessageCount"] == 2
    assert "homePartition" not in spread
    assert plain["availabilityStatus"] == "Available"
    assert plain["homePartition"] == entry(queue(), STANDARD).home_partition
    assert "countDetails" not in plain


def test_every_state_that_a_message_can_be_in_is_shown() -> None:
    counts = Counts(1, 2, 3, 4, 5, 6)

    facts = conditions.entity_facts(entry(queue()), set(), counts + counts)

    assert facts["countDetails"] == {
        "activeMessageCount": 2,
        "deadLetterMessageCount": 4,
        "scheduledMessageCount": 6,
        "deferredMessageCount": 8,
        "lockedMessageCount": 10,
        "transferMessageCount": 0,
        "transferDeadLetterMessageCount": 0,
    }
    assert facts["sizeInBytes"] == 12


def test_a_sum_that_no_schema_takes_is_cut_off() -> None:
    facts = conditions.entity_facts(entry(queue()), set(), Counts(2**70, size_bytes=2**70))

    assert facts["countDetails"]["activeMessageCount"] == facts["sizeInBytes"] == 2**63 - 1


def test_the_api_server_keeps_every_field_of_a_status() -> None:
    """What the schema does not have is pruned, and would be written again and again."""
    ready = conditions.ready_condition(Readiness(True, Reason.AVAILABLE, "yes"), 1, [], NOW)
    common = {"conditions": [ready], "observedGeneration": 1}
    of_queue = conditions.entity_facts(entry(queue(), STANDARD), set(), Counts())
    of_bus = conditions.bus_facts(BUS, STANDING.identity, set(), [], [], Counts())

    QueueStatus.model_validate({**common, **of_queue})
    BusNamespaceStatus.model_validate({**common, **of_bus})


def test_a_bus_is_ready_when_all_partitions_and_a_front_end_answer() -> None:
    assert conditions.bus_readiness(STANDING, set(), 1, started=True).ready


def test_a_bus_that_starts_is_progressing_and_one_that_lost_a_partition_is_not() -> None:
    starting = conditions.bus_readiness(STANDING, {0, 1}, 0, started=False)
    limited = conditions.bus_readiness(STANDING, {0}, 2, started=True)
    headless = conditions.bus_readiness(STANDING, set(), 0, started=True)

    assert starting.reason is Reason.PROGRESSING
    assert starting.message == "partitions 0, 1 not heard from yet; pods may be starting still."
    assert limited.reason is Reason.PARTITION_UNAVAILABLE
    assert headless.reason is Reason.FRONTEND_UNAVAILABLE


def test_what_a_bus_stands_on_comes_before_how_it_runs() -> None:
    refused = DataDecision(None, reason=Reason.RETAINED_DATA, message="kept")

    readiness = conditions.bus_readiness(refused, set(), 2, started=True)

    assert readiness == Readiness(False, Reason.RETAINED_DATA, "kept")


def test_the_facts_of_a_bus_name_the_first_orphans_and_count_all() -> None:
    orphans = [entry(queue(f"q{n:02}"), orphaned=True) for n in reversed(range(30))]

    facts = conditions.bus_facts(BUS, STANDING.identity, {1}, [], orphans, Counts(1))

    assert facts["orphanedCount"] == 30
    assert facts["orphaned"] == [f"q{n:02}" for n in range(20)]
    assert (facts["partitions"], facts["readyPartitions"]) == (2, 1)
    assert facts["endpoint"] == "sb://orders-frontend.shop.svc:7480"
    assert facts["connectionSecret"] == "orders-rootmanagesharedaccesskey"


def test_a_bus_that_stands_on_nothing_has_no_facts() -> None:
    assert conditions.bus_facts(BUS, None, set(), [], [], None) == {}


@pytest.mark.requirement("R388")
def test_the_message_of_a_bus_says_why_its_pods_do_not_run() -> None:
    crash = PodTrouble("pod orders-partition-0: CrashLoopBackOff, last error: format 13", True)
    waits = PodTrouble("pod orders-partition-1: Unschedulable: no node", False)

    stuck = conditions.bus_readiness(STANDING, {0}, 1, started=True, troubles=[crash, waits])
    starts = conditions.bus_readiness(STANDING, {0}, 1, started=False, troubles=[waits])
    runs = conditions.bus_readiness(STANDING, set(), 1, started=True, troubles=[crash])
    many = conditions.bus_readiness(STANDING, {0}, 1, started=True, troubles=[waits] * 9)

    assert (stuck.reason, stuck.stuck) == (Reason.PARTITION_UNAVAILABLE, True)
    assert stuck.message.endswith(f"keyed sends to it. {crash.text}. {waits.text}")
    assert (starts.reason, starts.stuck) == (Reason.PROGRESSING, False)
    assert starts.message.endswith(waits.text)
    assert runs.ready
    assert many.message.count("Unschedulable") == conditions.TROUBLES_SHOWN


@pytest.mark.requirement("R388")
@pytest.mark.parametrize("reason", list(Reason))
def test_what_is_not_ready_is_reconciling_or_stalled(reason: Reason) -> None:
    waiting = reason.value.endswith(("NotFound", "NotReady", "Unavailable", "Outdated"))
    passes = waiting or reason is Reason.PROGRESSING

    [made] = conditions.progress(Readiness(False, reason, "why"), 3, [], NOW)
    [stuck] = conditions.progress(Readiness(False, reason, "why", stuck=True), 3, [], NOW)

    assert made["type"] == ("Reconciling" if passes else "Stalled")
    assert stuck["type"] == "Stalled"
    assert (made["status"], made["reason"], made["message"]) == ("True", reason.value, "why")
    assert made["observedGeneration"] == 3
    assert conditions.progress(Readiness(True, Reason.AVAILABLE, "yes"), 3, [], NOW) == []


@pytest.mark.requirement("R393")
def test_a_bus_without_any_partition_or_front_end_does_not_say_that_it_works() -> None:
    none = conditions.bus_readiness(STANDING, {0, 1}, 2, started=True)
    headless = conditions.bus_readiness(STANDING, {0}, 0, started=True)
    some = conditions.bus_readiness(STANDING, {0}, 1, started=True)

    assert none.message == (
        "partitions 0, 1 unavailable; no message is stored or delivered until one answers."
    )
    assert headless.message == (
        "partition 0 unavailable; no front-end pod is ready, either: clients cannot connect."
    )
    assert some.message.startswith("partition 0 unavailable; the bus works, except for ")
    assert {none.reason, headless.reason, some.reason} == {Reason.PARTITION_UNAVAILABLE}


@pytest.mark.requirement("R393")
def test_an_entity_all_of_whose_partitions_are_away_says_that_every_send_fails() -> None:
    whole = entry(queue(), STANDARD)
    spread = entry(queue())

    home = whole.home_partition
    assert conditions.entity_readiness(whole, {home}, set()).message == (
        f"partition {home} unavailable; its messages wait, and sends to it fail."
    )
    assert "and sends to it fail" in conditions.entity_readiness(spread, {0, 1}, set()).message
    assert "keyed sends to it fail" in conditions.entity_readiness(spread, {1}, set()).message
