"""The settings of a job's session."""

import pytest

from bendybus.spark.errors import OptionError
from bendybus.spark.jobs.runtime import Runtime, settings

POD = {
    "POD_IP": "10.0.0.7",
    "POD_NAME": "capture-0",
    "POD_NAMESPACE": "shop",
    "BENDYBUS_SPARK_IMAGE": "localhost/bendybus-spark:1",
}


def test_a_setting_of_the_user_wins() -> None:
    found = settings(Runtime("local[4]", {"spark.sql.session.timeZone": "Europe/Berlin"}), {})

    assert found["spark.master"] == "local[4]"
    assert found["spark.sql.session.timeZone"] == "Europe/Berlin"


def test_executors_of_a_pod_belong_to_it() -> None:
    found = settings(Runtime("k8s", executors=3), POD)

    assert found["spark.master"].startswith("k8s://")
    assert found["spark.executor.instances"] == "3"
    assert found["spark.kubernetes.driver.pod.name"] == "capture-0"
    assert found["spark.driver.host"] == "10.0.0.7"
    assert found["spark.kubernetes.namespace"] == "shop"


def test_outside_of_a_pod_k8s_is_refused() -> None:
    with pytest.raises(OptionError, match="--master k8s: needs POD_NAME, BENDYBUS_SPARK_IMAGE in"):
        settings(Runtime("k8s"), {"POD_IP": "10.0.0.7", "POD_NAMESPACE": "shop"})


@pytest.mark.requirement("R300")
@pytest.mark.parametrize("master", ["local[2]", "k8s"])
def test_under_spark_submit_its_master_and_executors_hold(master: str) -> None:
    submitted = {"PYSPARK_GATEWAY_PORT": "25333"}

    found = settings(Runtime(master, {"spark.sql.shuffle.partitions": "8"}), submitted)

    assert "spark.master" not in found
    assert not [name for name in found if name.startswith(("spark.kubernetes", "spark.driver"))]
    # What the job needs is still set.
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert found["spark.sql.shuffle.partitions"] == "8"
