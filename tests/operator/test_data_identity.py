"""Whose data the volumes hold, and what may run on them."""

from typing import Any

import pytest

from bendybus.domain.limits import Tier
from bendybus.operator.decisions import storage
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.decisions.storage import Claim, DataDecision, Identity
from bendybus.operator.kubernetes import names
from tests.operator.manifests import bus, claim_body

MINE = Identity("bus-1", Tier.PREMIUM, 2)
THEIRS = Identity("bus-0", Tier.PREMIUM, 2)
ADOPT = {names.RETAINED_ANNOTATION: "adopt"}
PURGE = {names.RETAINED_ANNOTATION: "purge"}


def claims(*identities: Identity, adopted_by: str = "") -> list[Claim]:
    return [Claim(f"c-{n}", identity, adopted_by) for n, identity in enumerate(identities)]


def test_a_bus_without_volumes_makes_its_own() -> None:
    assert storage.decision(bus(), []) == DataDecision(MINE)


def test_a_bus_stands_on_its_own_volumes() -> None:
    assert storage.decision(bus(), claims(MINE, MINE)) == DataDecision(MINE)


def test_volumes_of_an_earlier_bus_want_a_word() -> None:
    decision = storage.decision(bus(), claims(THEIRS, THEIRS))

    assert (decision.identity, decision.reason) == (None, Reason.RETAINED_DATA)
    assert decision.message.startswith("2 volume(s) of an earlier BusNamespace 'orders' are kept.")
    assert (decision.adopt, decision.purge) == ((), ())


def test_adopted_volumes_keep_the_identity_that_is_in_their_files() -> None:
    decision = storage.decision(bus(annotations=ADOPT), claims(THEIRS, THEIRS))

    assert decision == DataDecision(THEIRS, adopt=("c-0", "c-1"))


def test_volumes_adopted_before_need_no_annotation_any_more() -> None:
    decision = storage.decision(bus(), claims(THEIRS, adopted_by="bus-1"))

    assert decision == DataDecision(THEIRS)


def test_an_adoption_that_broke_off_is_ended() -> None:
    known = [Claim("done", THEIRS, "bus-1"), Claim("left", THEIRS)]

    assert storage.decision(bus(), known) == DataDecision(THEIRS, adopt=("left",))


def test_purged_volumes_make_room_for_fresh_ones() -> None:
    decision = storage.decision(bus(annotations=PURGE), claims(THEIRS, THEIRS))

    assert decision == DataDecision(MINE, purge=("c-0", "c-1"))


def test_own_volumes_are_never_purged() -> None:
    decision = storage.decision(bus(annotations=PURGE), claims(MINE, MINE))

    assert decision == DataDecision(MINE)


@pytest.mark.parametrize(
    "theirs", [Identity("bus-0", Tier.STANDARD, 16), Identity("bus-0", Tier.PREMIUM, 4)]
)
def test_volumes_of_another_partitioning_are_never_adopted(theirs: Identity) -> None:
    decision = storage.decision(bus(annotations=ADOPT), claims(theirs))

    assert (decision.identity, decision.reason) == (None, Reason.PARTITIONING_IMMUTABLE)
    assert decision.adopt == ()


def test_volumes_of_several_buses_are_never_adopted() -> None:
    other = Identity("bus-00", Tier.PREMIUM, 2)

    decision = storage.decision(bus(annotations=ADOPT), claims(THEIRS, other))

    assert (decision.identity, decision.reason) == (None, Reason.RETAINED_DATA)


@pytest.mark.requirement("R07")
@pytest.mark.parametrize(
    "wanted", [{"premiumMessagingPartitions": 4}, {"sku": {"tier": "Standard"}}]
)
def test_a_bus_whose_manifest_asks_for_another_partitioning_runs_on_as_it_was(
    wanted: dict[str, Any],
) -> None:
    decision = storage.decision(bus(**wanted), claims(MINE))

    assert (decision.identity, decision.reason) == (MINE, Reason.PARTITIONING_IMMUTABLE)


def test_a_claim_says_what_its_files_say() -> None:
    body = claim_body(1, uid="bus-0", adopted_by="bus-1")

    assert storage.claim_of(body) == Claim("data-orders-partition-1", THEIRS, "bus-1")


@pytest.mark.parametrize("annotation", ["namespace-uid", "tier", "partition-count"])
def test_a_claim_that_does_not_say_all_is_of_no_bus(annotation: str) -> None:
    body = claim_body()
    del body["metadata"]["annotations"][f"bendybus.io/{annotation}"]

    assert storage.claim_of(body) is None


def test_a_claim_with_nonsense_is_of_no_bus() -> None:
    assert storage.claim_of(claim_body(partition_count="many")) is None
    assert storage.claim_of({"metadata": {"name": "x"}}) is None


def test_the_own_stateful_set_speaks_before_there_are_volumes() -> None:
    annotations = claim_body(uid="bus-0")["metadata"]["annotations"]
    common = {"name": "orders-partition", "annotations": annotations}
    own = {"metadata": {**common, "ownerReferences": [{"uid": "bus-1"}]}}
    foreign = {"metadata": {**common, "ownerReferences": [{"uid": "bus-0"}]}}

    assert storage.known(bus(), [], own) == [Claim("", THEIRS, adopted_by="bus-1")]
    assert storage.known(bus(), [], foreign) == []


def test_volumes_that_are_being_deleted_are_in_nobodys_way() -> None:
    """A bus deleted with its data and made again at once: pods wait for the old volumes to go."""
    deletions = claim_body(uid="bus-0")
    deletions["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"

    assert storage.decision(bus(), storage.known(bus(), [deletions], None)).reason is None
