"""The liveness probe of a pipeline."""

import os
from pathlib import Path

from bendybus.spark import alive


def test_a_job_is_alive_while_its_file_is_young(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    file.touch()
    os.utime(file, (1_000, 1_000))

    assert alive.main([str(file), "600"], 1_600) == ""
    assert alive.main([str(file), "600"], 1_601) == f"{file}: no sign of life for 601 s"


def test_a_job_that_never_began_is_not_alive(tmp_path: Path) -> None:
    assert "No such file" in alive.main([str(tmp_path / "none"), "600"], 0)
