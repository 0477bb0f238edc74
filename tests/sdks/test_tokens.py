"""The short form of `make sdk-tokens`: tokens expire twice, a front end and a partition go."""

from pathlib import Path

import pytest

from tests.sdks.programs import PROGRAMS
from tests.sdks.token_load import Plan, figures, run


@pytest.mark.requirement("R517")
def test_programs_with_short_tokens_lose_nothing(tmp_path: Path) -> None:
    found = run(tmp_path, PROGRAMS, Plan(seconds=24.0, lives=10))

    faults = {sdk: (lines, figures(answer)) for sdk, (answer, lines) in found.items() if lines}
    assert faults == {}
