"""Volumes that grow, and those that cannot."""

from decimal import Decimal
from typing import Any

import pytest

from bendybus.domain.limits import Tier
from bendybus.operator.decisions import storage
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.decisions.storage import DataDecision, Growth, Identity
from tests.operator.manifests import claim_body

STANDING = DataDecision(Identity("bus-1", Tier.PREMIUM, 2))


def stateful_set(size: str) -> dict[str, Any]:
    return {
        "spec": {"volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": size}}}}]}
    }


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10Gi", 10 * 1024**3),
        ("1.5Gi", Decimal("1.5") * 1024**3),
        ("1536Mi", Decimal("1.5") * 1024**3),
        ("1e3", 1000),
        ("2E6", 2_000_000),
        ("1E", 10**18),
        ("5.", 5),
        (".5k", 500),
        ("+3M", 3_000_000),
        ("1500m", Decimal("1.5")),
        ("100n", Decimal("1e-7")),
        ("7u", Decimal("7e-6")),
        (1024, 1024),
        ("0", 0),
        ("3Ki", 3072),
        ("2Ei", 2 * 1024**6),
    ],
)
def test_every_quantity_that_kubernetes_stores_is_a_number(
    text: int | str, number: Decimal | int
) -> None:
    assert storage.amount(text) == number


def test_claims_of_less_than_is_asked_grow() -> None:
    claims = [claim_body(0, size="10Gi"), claim_body(1, size="20Gi"), claim_body(2, size="0.5Ti")]

    growth = storage.grown("20Gi", claims)

    assert growth == Growth("20Gi", ("data-orders-partition-0",), ("data-orders-partition-2",))


def test_the_same_size_in_other_words_is_the_same_size() -> None:
    growth = storage.grown("1.5Gi", [claim_body(size="1536Mi")])

    assert growth == Growth("1.5Gi", (), ())
    assert not growth.differs(stateful_set("1536Mi"), "1.5Gi")


def test_a_refused_growth_is_said_and_the_template_stays() -> None:
    growth = Growth("20Gi", ("c-0",), ())

    decision = growth.judged(STANDING, "no expansion here")

    assert decision.reason is Reason.STORAGE_NOT_EXPANDABLE
    assert "no expansion here" in decision.message
    assert decision.identity == STANDING.identity
    assert growth.template_size(stateful_set("10Gi"), "no expansion here") == "10Gi"


def test_volumes_do_not_shrink() -> None:
    growth = Growth("5Gi", (), ("c-0",))

    decision = growth.judged(STANDING, "")

    assert decision.reason is Reason.STORAGE_NOT_EXPANDABLE
    assert "cannot shrink" in decision.message
    assert growth.template_size(stateful_set("10Gi"), "") == "10Gi"


def test_an_allowed_growth_is_in_the_template_too() -> None:
    growth = Growth("20Gi", ("c-0",), ())

    assert growth.judged(STANDING, "") == STANDING
    assert growth.template_size(stateful_set("10Gi"), "") == "20Gi"
    assert growth.differs(stateful_set("10Gi"), "20Gi")


def test_a_worse_reason_is_not_covered() -> None:
    refused = DataDecision(None, reason=Reason.PARTITIONING_IMMUTABLE, message="x")

    assert Growth("20Gi", ("c-0",), ()).judged(refused, "no") == refused


def test_without_a_stateful_set_the_size_is_what_is_asked() -> None:
    assert Growth("20Gi", (), ()).template_size(None, "") == "20Gi"
