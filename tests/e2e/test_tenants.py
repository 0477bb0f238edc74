"""What one tenant can do to others, and a pod without credentials to all: as little as possible."""

import time
from collections.abc import Iterator

import pytest

from tests.e2e import images
from tests.e2e.cluster import Body, Cluster, CommandFailed, eventually
from tests.e2e.conftest import Installation, Space, fresh_space

BUSES = 30
HOSTILE = ("empty", "nested", "mute")
# How late the status of another tenant may be.
LATE_S = 5.0
ROUNDS = 12
COUNTS_EVERY_S = 10.0


@pytest.fixture(scope="session")
def hostile_image(cluster: Cluster) -> str:
    if cluster.nodes is None:
        pytest.skip("the image of a hostile tenant can be loaded only on nodes of shared/cluster")
    return images.hostile(cluster)


@pytest.fixture(scope="module")
def others(installation: Installation) -> Iterator[Space]:
    """Buses of other tenants, each with a queue."""
    with fresh_space(installation, "tenants") as space:
        buses = [space.bus(f"bus-{n}", 1) for n in range(BUSES)]
        queues = [space.queue(f"queue-{n}", f"bus-{n}") for n in range(BUSES)]
        space.cluster.apply(*buses, *queues)
        for each in (*buses, *queues):
            name = each["metadata"]["name"]
            space.cluster.await_ready(each["kind"], name, space.name, within_s=300)
        yield space


def restarts(installation: Installation) -> dict[str, int]:
    """Return how often each container of the operator was restarted, by UID of its pod."""
    return {
        pod["metadata"]["uid"]: sum(
            each["restartCount"] for each in pod["status"]["containerStatuses"]
        )
        for pod in installation.operators()
    }


def change(space: Space, number: int, deliveries: int) -> float:
    """Change one queue of each of some buses; return how late the last status was."""
    chosen = [(number * 5 + n) % BUSES for n in range(5)]
    wanted = [space.queue(f"queue-{n}", f"bus-{n}", maxDeliveryCount=deliveries) for n in chosen]
    space.cluster.apply(*wanted)
    began_s = time.monotonic()
    names = [each["metadata"]["name"] for each in wanted]

    def look() -> bool:
        found = {each["metadata"]["name"]: each for each in space.cluster.list("queue", space.name)}
        return all(is_current(found[name]) for name in names)

    eventually(look, within_s=60, what=f"{names} say that they are changed")
    return time.monotonic() - began_s


def is_current(body: Body) -> bool:
    """Whether a manifest is Ready as it is now."""
    status = body.get("status") or {}
    ready = [each["status"] for each in status.get("conditions") or [] if each["type"] == "Ready"]
    return status.get("observedGeneration") == body["metadata"]["generation"] and ready == ["True"]


def test_a_hostile_tenant_ends_no_operator_and_makes_no_other_status_late(
    installation: Installation, others: Space, hostile_image: str
) -> None:
    cluster = others.cluster
    before = restarts(installation)
    usual_s = [change(others, number, 3) for number in range(2)]
    with fresh_space(installation, "hostile") as hers:
        for kind in HOSTILE:
            cluster.apply(
                hers.bus(kind, 1, image=hostile_image),
                hers.queue(f"queue-{kind}", kind, deletionPolicy="Delete"),
            )
        why = eventually(lambda: say_why(hers), within_s=120, what="her buses say what is wrong")
        late_s = [change(others, number, 4 + number) for number in range(ROUNDS)]
        sent = others.say("echo orchid | bendybus send queue-0", secret=key_of("bus-0"))
        counted_s = eventually_counts(others, "queue-0", 1)
        # Whether hers hold messages cannot be known.
        with pytest.raises(CommandFailed, match="cannot say whether they hold messages"):
            cluster.kubectl("delete", "queue", "queue-mute", "-n", hers.name)
        after, still = restarts(installation), say_why(hers)

    print(f"usual {usual_s}, beside her {late_s}, counts {counted_s:.1f}; she: {why}")
    assert "1 sent" in sent
    assert after == before
    assert max(late_s) < LATE_S
    assert counted_s < COUNTS_EVERY_S + LATE_S
    assert still


def test_a_bus_that_runs_good_partitions_again_is_read_again(
    space: Space, hostile_image: str
) -> None:
    cluster = space.cluster
    buses = [space.bus(kind, 1, image=hostile_image) for kind in HOSTILE]
    cluster.apply(*buses)
    eventually(lambda: say_why(space), within_s=120, what="the buses say what is wrong")

    good = [space.bus(kind, 1) for kind in HOSTILE]
    space.start(*good, *(space.queue(f"queue-{kind}", kind) for kind in HOSTILE), within_s=180)

    def alone() -> bool:
        """Whether Ready is all that the buses say."""
        for bus in cluster.list("busnamespace", space.name):
            assert [each["type"] for each in bus["status"]["conditions"]] == ["Ready"], bus
        return True

    eventually(alone, within_s=60, what="nothing else is said")


def say_why(space: Space) -> dict[str, str]:
    """Return what the statuses of her buses say; nothing until all do."""
    found = {
        bus["metadata"]["name"]: {
            each["type"]: each["message"]
            for each in (bus.get("status") or {}).get("conditions") or []
        }
        for bus in space.cluster.list("busnamespace", space.name)
    }
    assert "AnswerNotUnderstood" in found["empty"], found
    assert "WorkerEnded" in found["nested"] or "AnswerNotUnderstood" in found["nested"], found
    assert "partition 0 " in found["mute"].get("Ready", ""), found
    return {name: str(each) for name, each in found.items()}


def key_of(bus: str) -> str:
    return f"{bus}-rootmanagesharedaccesskey"


def eventually_counts(space: Space, queue: str, messages: int) -> float:
    """Return how long it took until a queue's status counts so many messages."""
    began_s = time.monotonic()

    def look() -> bool:
        status = space.cluster.get("queue", queue, space.name)["status"]
        found = status.get("countDetails", status)
        assert found.get("activeMessageCount") == messages, found
        return True

    eventually(look, within_s=60, what=f"{queue} counts {messages}")
    return time.monotonic() - began_s
