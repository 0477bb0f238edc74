"""How long webhooks compile rules: a bounded part of the time."""

import asyncio

import pytest

from bendybus.operator.controllers import webhooks as webhooks_module
from bendybus.operator.controllers.webhooks import COMPILE_BURST_S, COMPILE_SHARE, CompileTime
from tests.operator.cluster import Cluster
from tests.operator.manifests import bus_body, subscription_body
from tests.operator.test_webhooks import asked, sql

pytestmark = pytest.mark.integration


@pytest.mark.requirement("R396")
async def test_rules_are_compiled_for_a_bounded_part_of_the_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = subscription_body(rules=[{"name": "r", **sql("(((")}])
    async with asked(cluster, lambda _: b"", bus_body(sku={"tier": "Standard"})) as webhooks:
        monkeypatch.setattr(webhooks_module, "COMPILE_BURST_S", 0.0)
        webhooks._compile_time.spend(1.0, asyncio.get_running_loop().time())
        # Left to the bus, at once.
        await webhooks.entity("CREATE", wrong)


@pytest.mark.requirement("R396")
def test_time_for_compiling_comes_again_by_and_by() -> None:
    budget = CompileTime()
    assert not budget.is_spent(100.0)

    budget.spend(COMPILE_BURST_S + 1.0, 100.0)

    assert budget.is_spent(100.0)
    assert budget.is_spent(100.0 + 0.9 / COMPILE_SHARE)
    assert not budget.is_spent(100.0 + 1.1 / COMPILE_SHARE)
    # It is not saved up.
    budget.spend(COMPILE_BURST_S + 0.1, 10_000.0)
    assert budget.is_spent(10_000.0)
