"""Packages that are installed without isolation are built with pinned tools."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The first version of setuptools that makes wheels by itself, and the first without pkg_resources,
# which the flights import.
MAKES_WHEELS, TOO_NEW = (70, 1), (82, 0)


@pytest.mark.parametrize("name", ["dev", "spark"])
def test_a_wheel_can_be_built_of_the_flights_with_an_empty_cache(name: str) -> None:
    pinned = (ROOT / "requirements" / f"{name}.txt").read_text()

    found = re.search(r"^setuptools==(\d+)\.(\d+)", pinned, re.MULTILINE)

    assert found is not None
    assert MAKES_WHEELS <= tuple(map(int, found.groups())) < TOO_NEW
