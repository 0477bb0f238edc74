"""What keeps pods from running, in a sentence."""

from typing import Any, cast

import pytest

from bendybus.operator.controllers import bus_reconciler
from bendybus.operator.controllers.bus_reconciler import BusReconciler
from bendybus.operator.decisions import conditions
from bendybus.operator.decisions.conditions import TEXT_CHARS_MAX, PodTrouble
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import RealKubernetesApi
from bendybus.operator.settings import Settings
from tests.operator.manifests import BUS

ELSEWHERE = "partition-03.db belongs elsewhere: format 13 instead of 12"


def pod(name: str = "orders-partition-3", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": status}


def waits(why: str, text: str = "", /, **ended: Any) -> dict[str, Any]:
    container = {"ready": False, "state": {"waiting": {"reason": why, "message": text}}}
    if ended:
        container["lastState"] = {"terminated": ended}
    return {"containerStatuses": [container]}


@pytest.mark.requirement("R388")
@pytest.mark.parametrize(
    ("status", "text", "stuck"),
    [
        (
            waits("CrashLoopBackOff", "back-off 40s restarting", exitCode=1, message=ELSEWHERE),
            f"CrashLoopBackOff, last error: {ELSEWHERE}",
            True,
        ),
        (
            waits("CrashLoopBackOff", reason="OOMKilled", exitCode=137),
            "CrashLoopBackOff, OOMKilled with 137",
            True,
        ),
        (
            waits("ImagePullBackOff", 'Back-off pulling image "x:1"'),
            'ImagePullBackOff, Back-off pulling image "x:1"',
            True,
        ),
        (
            {
                "containerStatuses": [
                    {
                        "ready": False,
                        "state": {"running": {}},
                        "lastState": {"terminated": {"exitCode": 1, "message": ELSEWHERE}},
                    }
                ]
            },
            f"restarted, last error: {ELSEWHERE}",
            False,
        ),
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes are available",
                    }
                ]
            },
            "Unschedulable: 0/3 nodes are available",
            False,
        ),
    ],
)
def test_a_pod_that_does_not_run_says_why(status: Any, text: str, stuck: bool) -> None:
    [found] = conditions.troubles_of([pod(**status)])

    assert found.text == f"pod orders-partition-3: {text}"
    assert found.stuck is stuck


@pytest.mark.requirement("R388")
@pytest.mark.parametrize(
    "status",
    [
        {},
        waits("ContainerCreating"),
        {"containerStatuses": [{"ready": True, "lastState": {"terminated": {"exitCode": 1}}}]},
        {"conditions": [{"type": "PodScheduled", "status": "True"}]},
    ],
)
def test_a_pod_that_runs_or_begins_to_has_no_trouble(status: Any) -> None:
    assert conditions.troubles_of([pod(**status)]) == []


@pytest.mark.requirement("R388")
def test_what_is_stuck_comes_first_and_texts_are_bounded_and_printable() -> None:
    waiting = pod("a", conditions=[{"type": "PodScheduled", "status": "False", "reason": "No"}])
    loud = pod("b", **waits("CrashLoopBackOff", exitCode=1, message="x\x1b[2J\n" + "y" * 9_000))

    first, second = conditions.troubles_of([waiting, loud])

    assert second == PodTrouble("pod a: No: ", False)
    assert first.stuck
    assert first.text.isprintable()
    assert len(first.text) < TEXT_CHARS_MAX + 60


@pytest.mark.requirement("R480")
async def test_pods_that_a_tenant_labelled_are_read_few_at_a_time_and_not_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[dict[str, str]] = []

    async def call(verb: str, path: str, query: dict[str, str]) -> Any:
        asked.append(dict(query))
        pods = [pod(f"p{n}") | {"spec": "large"} for n in range(int(query.get("limit", 10_000)))]
        return {"kind": "PodList", "items": pods, "metadata": {"continue": f"after-{len(asked)}"}}

    real = RealKubernetesApi.__new__(RealKubernetesApi)
    monkeypatch.setattr(real, "_call", call)
    buses = BusReconciler(real, Settings(), cast(Any, None), cast(Any, None))

    assert await buses.pod_troubles(BUS) == []

    assert sum(int(each["limit"]) for each in asked) == bus_reconciler.PODS_MAX
    assert max(int(each["limit"]) for each in asked) <= 10
    assert asked[1]["continue"] == "after-1"
    assert all(names.BUS_LABEL in each["labelSelector"] for each in asked)
