"""Every requirement has a test, every mark a requirement, and the page says so."""

import ast
import textwrap
from pathlib import Path

from tests import conformance


def test_every_requirement_has_a_test() -> None:
    found = conformance.read()

    assert {number: found.texts[number] for number in found.unproven()} == {}


def test_every_mark_names_a_requirement() -> None:
    assert conformance.read().unknown() == []


def test_the_page_is_what_the_tests_say() -> None:
    found = conformance.page(conformance.read())

    assert conformance.PAGE.read_text(encoding="utf-8") == found, "stale: run make docs"


def test_marks_are_found_wherever_pytest_finds_them() -> None:
    module = ast.parse(
        textwrap.dedent(
            """
            import pytest
            pytestmark = [pytest.mark.integration, pytest.mark.requirement("R1")]

            @pytest.mark.requirement("R2", "R3")
            async def test_a(): ...

            @pytest.mark.requirement("R4")
            class TestB:
                @pytest.mark.parametrize("x", [pytest.param(1, marks=mark.requirement("R5"))])
                def test_c(self, x): ...

            @pytest.mark.requirement("R6")
            def helper(): ...
            """
        )
    )

    assert list(conformance.marks(module)) == [
        ("test_a", "R1"),
        ("test_a", "R2"),
        ("test_a", "R3"),
        ("TestB::test_c", "R1"),
        ("TestB::test_c", "R4"),
        ("TestB::test_c", "R5"),
    ]


def test_what_is_unproven_and_what_is_unknown_is_told(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "requirements.toml").write_text('[R1]\ntext = "one"\n[R2]\ntext = "two"\n')
    (tests / "test_x.py").write_text(
        'import pytest\n@pytest.mark.requirement("R2", "R9")\ndef test_y(): ...\n'
    )

    found = conformance.read(tests)

    assert found.unproven() == ["R1"]
    assert found.unknown() == ["tests/test_x.py::test_y: R9"]
    assert "**No test yet.**" in conformance.page(found)


def test_every_sentence_of_the_description_is_proven_or_outside_for_a_reason(
    tmp_path: Path,
) -> None:
    found = conformance.read()
    assert sum(map(len, found.description.values())) > 45
    assert found.unfounded() == []

    (tmp_path / "requirements.toml").write_text('[R1]\ntext = "one"\n')
    (tmp_path / "description.toml").write_text(
        '[[section]]\nname = "a"\nsentences = [{says = "x"}, {says = "y", by = ["R2"]}, '
        '{says = "z", by = ["R1"]}, {says = "w", outside = "elsewhere"}]\n'
    )
    assert conformance.read(tmp_path).unfounded() == ["x", "y"]
