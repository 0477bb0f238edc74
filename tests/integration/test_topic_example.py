"""The example of the page about topics does what the page says."""

import runpy
from pathlib import Path

import pytest

from tests.integration.processes import Bus

EXAMPLE = Path(__file__).parents[2] / "examples" / "topic.py"


@pytest.mark.requirement("R114")
def test_the_example_runs(bus: Bus) -> None:
    main = runpy.run_path(str(EXAMPLE))["main"]

    found = main(bus.connection_string, "departures-example")

    assert found == {
        "all": ["DL is 95 minutes late", "UA is 130 minutes late", "UA is 5 minutes late"],
        "united": ["UA is 130 minutes late", "UA is 5 minutes late"],
        "late": ["DL is 95 minutes late!", "UA is 130 minutes late!"],
    }
