"""The entry point of the Spark image: what Spark's pods ask for, and any other command as it is.

executor                an executor; Spark's driver says which in the environment
driver ARGUMENTS…       the driver of a job in cluster mode
anything else           that command, such as `bendybus pipeline …`
"""

import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_JAVA_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)\Z")
_BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
# Argument of the backend → where the driver put its value.
_OF_EXECUTOR: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def main() -> None:
    """Become the program that the arguments ask for."""
    home = os.environ.get("SPARK_HOME") or spark_home()
    environment = {**os.environ, "SPARK_HOME": home}
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    program = command(sys.argv[1:], environment)
    os.execvpe(program[0], program, environment)


def spark_home() -> str:
    """Return the folder of Spark, which is that of its Python package."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        sys.exit("There is no Spark in this image: it is not bendybus-spark.")
    return str(Path(found.origin).parent)


def command(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the program and its arguments."""
    home = environment["SPARK_HOME"]
    if not arguments:
        return ["bendybus", "pipeline", "--help"]
    if arguments[0] == "driver":
        address = environment.get("SPARK_DRIVER_BIND_ADDRESS", "0.0.0.0")
        return [
            f"{home}/bin/spark-submit",
            "--deploy-mode",
            "client",
            "--conf",
            f"spark.driver.bindAddress={address}",
            *arguments[1:],
        ]
    if arguments[0] == "executor":
        return _executor(environment)
    return list(arguments)


def _executor(environment: Mapping[str, str]) -> list[str]:
    java = environment.get("JAVA_HOME")
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    # As separate arguments, in the order of their numbers.
    numbered = {
        int(match[1]): value
        for name, value in environment.items()
        if (match := _JAVA_OPTION.match(name))
    }
    path = ":".join(
        filter(None, (environment.get("SPARK_CONF_DIR"), f"{environment['SPARK_HOME']}/jars/*"))
    )
    made = [f"{java}/bin/java" if java else "java", *(numbered[n] for n in sorted(numbered))]
    made += [f"-Xms{memory}", f"-Xmx{memory}", "-cp", path, _BACKEND]
    for option, name in _OF_EXECUTOR.items():
        made += [option, environment[name]]
    return made


if __name__ == "__main__":
    main()
