"""KEDA on a real cluster scales consumers of a queue, by the external scaler and by its own."""

import base64
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.e2e import keda
from tests.e2e.cluster import Body, eventually
from tests.e2e.conftest import Installation, Space, fresh_space

pytestmark = [
    pytest.mark.requirement("R654"),
    # KEDA is built once for a machine, which takes its time.
    pytest.mark.timeout(4_000),
]
SECRET: Final = "bus-rootmanagesharedaccesskey"
MESSAGES: Final = 12
EACH: Final = 4
SLEEPS: Final = ["python3", "-c", "import time; time.sleep(10**6)"]


@pytest.fixture(scope="module")
def scaled(installation: Installation) -> Iterator[Space]:
    """A bus with a queue, and KEDA, which trusts its authority."""
    with fresh_space(installation, "keda") as space:
        space.start(space.bus("bus"), space.queue("orders", "bus"), space.queue("jobs", "bus"))
        secret = space.cluster.get("secret", SECRET, space.name)
        keda.install(space.cluster, base64.b64decode(secret["data"]["ca.crt"]))
        space.cluster.apply(
            keda_object(
                space,
                "TriggerAuthentication",
                "bus",
                secretTargetRef=[{"parameter": "caCert", "name": SECRET, "key": "ca.crt"}],
            )
        )
        yield space
        keda.remove(space.cluster)


def keda_object(space: Space, kind: str, name: str, **spec: Any) -> Body:
    """Return a manifest of KEDA's."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": space.name},
        "spec": spec,
    }


def container(space: Space, name: str, command: list[str]) -> Body:
    """Return a container with the connection strings of the bus."""
    return {
        "name": name,
        "image": space.image,
        "command": command,
        "env": [
            {
                "name": variable,
                "valueFrom": {"secretKeyRef": {"name": SECRET, "key": key}},
            }
            for variable, key in (
                ("BENDYBUS_CONNECTION_STRING", "primaryConnectionString"),
                ("SERVICE_BUS", "amqpPrimaryConnectionString"),
            )
        ]
        + [{"name": "BENDYBUS_CA_FILE", "value": "/trust/ca.crt"}],
        "volumeMounts": [{"name": "trust", "mountPath": "/trust"}],
    }


def pod(space: Space, name: str, command: list[str], **spec: Any) -> Body:
    """Return the specification of a pod."""
    trust = {"name": "trust", "secret": {"secretName": SECRET}}
    return {"containers": [container(space, name, command)], "volumes": [trust], **spec}


def trigger(space: Space, kind: str, queue: str) -> Body:
    """Return a trigger of the external scaler, or of KEDA's for Azure Service Bus."""
    metadata = {"queueName": queue, "messageCount": str(EACH)}
    if kind == "azure-servicebus":
        return {"type": kind, "metadata": {**metadata, "connectionFromEnv": "SERVICE_BUS"}}
    metadata |= {
        "scalerAddress": f"bus-frontend.{space.name}.svc:7480",
        "connectionFromEnv": "BENDYBUS_CONNECTION_STRING",
    }
    return {"type": kind, "metadata": metadata, "authenticationRef": {"name": "bus"}}


def replicas(space: Space, name: str) -> int:
    """Return how many consumers there should be."""
    found: int = space.cluster.get("deployment", name, space.name)["spec"]["replicas"]
    return found


@pytest.mark.parametrize("kind", ["external", "external-push", "azure-servicebus"])
def test_a_deployment_is_scaled_from_none_to_many_and_back(scaled: Space, kind: str) -> None:
    space, name = scaled, f"by-{kind}"
    labels = {"app": name}
    space.cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": space.name},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod(space, name, SLEEPS)},
            },
        },
        keda_object(
            space,
            "ScaledObject",
            name,
            scaleTargetRef={"name": name},
            minReplicaCount=0,
            maxReplicaCount=MESSAGES // EACH,
            pollingInterval=3,
            cooldownPeriod=5,
            triggers=[trigger(space, kind, "orders")],
        ),
    )
    try:
        eventually(
            lambda: space.cluster.exists("hpa", f"keda-hpa-{name}", space.name),
            within_s=60,
            what="KEDA took the ScaledObject",
        )
        assert replicas(space, name) == 0

        space.say(f"bendybus send orders hello --count {MESSAGES}")
        eventually(
            lambda: replicas(space, name) == MESSAGES // EACH,
            within_s=150,
            what="there is a consumer for each few messages",
        )
        space.say("bendybus purge orders --yes")
        eventually(
            lambda: replicas(space, name) == 0, within_s=150, what="there is no consumer any more"
        )
    except AssertionError as error:
        raise AssertionError(f"{error}\n{keda.said(space.cluster)}") from error
    finally:
        space.cluster.kubectl("delete", "scaledobject", name, "-n", space.name, "--wait=false")


@pytest.mark.parametrize("kind", ["external", "azure-servicebus"])
def test_jobs_are_started_for_messages(scaled: Space, kind: str) -> None:
    space, name = scaled, f"job-{kind}"
    receive = ["bendybus", "receive", "jobs", "--max", str(EACH)]
    space.cluster.apply(
        keda_object(
            space,
            "ScaledJob",
            name,
            maxReplicaCount=3,
            pollingInterval=3,
            jobTargetRef={
                "backoffLimit": 0,
                "template": {"spec": pod(space, name, receive, restartPolicy="Never")},
            },
            triggers=[trigger(space, kind, "jobs")],
        )
    )
    try:
        space.say(f"bendybus send jobs hello --count {MESSAGES}")

        def done() -> bool:
            jobs = space.cluster.list("job", space.name, f"scaledjob.keda.sh/name={name}")
            return sum(each["status"].get("succeeded", 0) for each in jobs) >= MESSAGES // EACH

        eventually(done, within_s=180, what="jobs took the messages")
        listed = space.say("bendybus get queues jobs -o json")
        assert '"activeMessageCount": 0' in listed, listed
    except AssertionError as error:
        raise AssertionError(f"{error}\n{keda.said(space.cluster)}") from error
    finally:
        space.cluster.kubectl("delete", "scaledjob", name, "-n", space.name, "--wait=false")
