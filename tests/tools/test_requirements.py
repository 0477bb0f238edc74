"""Packages that are installed without isolation are built with pinned tools."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The first version of setuptools that makes wheels by itself.
MAKES_WHEELS = (70, 1)


@pytest.mark.parametrize("name", ["dev", "spark"])
def test_a_wheel_can_be_built_of_the_flights_with_an_empty_cache(name: str) -> None:
    pinned = (ROOT / "requirements" / f"{name}.txt").read_text()

    found = re.search(r"^setuptools==(\d+)\.(\d+)", pinned, re.MULTILINE)

    assert found is not None
    assert tuple(map(int, found.groups())) >= MAKES_WHEELS
