"""What the registrar makes in a namespace of a tier, and what goes on although it is not made."""

from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain import errors
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.limits import Tier
from bendybus.partition_server.state.commands import ApplyEntity
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.conftest import MakeStore
from tests.partition_server.driver import Driver, fingerprint

CREATE = EntityAction.CREATE
REFUSED: list[tuple[dict[str, Any], type[errors.BusError]]] = [
    ({"changes": {"requires_duplicate_detection": True}}, errors.InvalidArgument),
    ({"changes": {"requires_session": True}}, errors.InvalidArgument),
    ({"kind": EntityKind.TOPIC}, errors.InvalidOperation),
]


def registrar(make_store: MakeStore, tier: Tier) -> Driver:
    """Return the registrar of a namespace of 16 partitions."""
    return Driver(make_store(fingerprint(tier=tier, count=16)))


@pytest.mark.requirement("R200")
@pytest.mark.parametrize("tier", Tier)
def test_a_basic_namespace_makes_queues_without_what_its_tier_lacks(
    make_store: MakeStore, tier: Tier
) -> None:
    driver = registrar(make_store, tier)

    for number, (options, error) in enumerate(REFUSED):
        if tier is not Tier.BASIC:
            commit(driver, CREATE, f"e{number}", **options)
            continue
        with pytest.raises(error, match="Basic"):
            commit(driver, CREATE, f"e{number}", **options)

    assert commit(driver, CREATE, "plain").partition_count in (1, 16)


@pytest.mark.requirement("R200")
def test_a_basic_queue_that_detects_duplicates_since_an_earlier_version_goes_on(
    make_store: MakeStore,
) -> None:
    driver = registrar(make_store, Tier.BASIC)
    made = commit(driver, CREATE)
    described = QueueDescription(requires_duplicate_detection=True)
    entry = replace(made, description=described, generation=made.generation + 1)
    driver.run(ApplyEntity("a", [entry]))

    changed = commit(driver, EntityAction.UPDATE, changes={"max_delivery_count": 3})

    assert changed.description.requires_duplicate_detection
    assert changed.description.max_delivery_count == 3
