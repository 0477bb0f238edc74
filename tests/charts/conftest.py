"""Without Helm there is nothing to look at: skipped here, a failure where the tools should be."""

import os

import pytest

from tests.charts import rendering

NEEDED = "BENDYBUS_HELM_NEEDED"


@pytest.fixture(scope="session", autouse=True)
def _helm() -> None:
    if rendering.has_helm():
        return
    if os.environ.get(NEEDED):
        pytest.fail(f"{NEEDED} is set, and there is no helm on the PATH.")
    pytest.skip("no helm on the PATH: the chart is not rendered here")
