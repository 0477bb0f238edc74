"""The entry point of the Spark image."""

import pytest

from bendybus.spark import container

EXECUTOR = {
    "SPARK_HOME": "/spark",
    "JAVA_HOME": "/java",
    "SPARK_CONF_DIR": "/conf",
    "SPARK_DRIVER_URL": "spark://driver",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.5",
    "SPARK_EXECUTOR_POD_NAME": "pod-3",
    **{f"SPARK_JAVA_OPT_{number}": f"-Done={number}" for number in (10, 9, 0)},
}


@pytest.mark.requirement("R302")
def test_an_executor_is_started_as_its_environment_says() -> None:
    java, *rest = container.command(["executor"], EXECUTOR)

    assert java == "/java/bin/java"
    assert rest[:6] == ["-Done=0", "-Done=9", "-Done=10", "-Xms512m", "-Xmx512m", "-cp"]
    assert rest[6] == "/conf:/spark/jars/*"
    assert rest[7].endswith("KubernetesExecutorBackend")
    given = dict(zip(rest[8::2], rest[9::2], strict=True))
    assert given == {
        "--driver-url": "spark://driver",
        "--executor-id": "3",
        "--cores": "1",
        "--app-id": "app",
        "--hostname": "10.0.0.5",
        "--resourceProfileId": "0",
        "--podName": "pod-3",
    }


@pytest.mark.requirement("R302")
def test_a_driver_is_submitted_in_this_pod() -> None:
    made = container.command(
        ["driver", "--properties-file", "p", "local:///job.py"],
        {"SPARK_HOME": "/spark", "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.9"},
    )

    assert made[:3] == ["/spark/bin/spark-submit", "--deploy-mode", "client"]
    assert made[3:] == [
        "--conf",
        "spark.driver.bindAddress=10.0.0.9",
        "--properties-file",
        "p",
        "local:///job.py",
    ]


def test_any_other_command_is_run_as_it_is() -> None:
    given = ["bendybus", "pipeline", "capture"]

    assert container.command(given, {"SPARK_HOME": "/spark"}) == given
