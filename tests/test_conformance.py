"""Every requirement has a test, every mark a requirement, and the page says so."""

import ast
import textwrap
from pathlib import Path

import pytest

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


def test_the_page_lists_the_public_files_and_their_outcomes(tmp_path: Path) -> None:
    corpus = tmp_path / "crds" / "corpus"
    corpus.mkdir(parents=True)
    (tmp_path / "requirements.toml").write_text('[R1]\ntext = "one"\n')
    (corpus / "index.toml").write_text(
        '[[file]]\nfile = "a"\nsource = "o/n:a"\nform = "arm"\nmanifests = {}\n'
        '[[file]]\nfile = "b"\nsource = "o/n:b"\nform = "az"\nrefused = {"[0].id" = "is x."}\n'
        '[[file]]\nfile = "c"\nsource = "o/n:c"\nform = "arm"\nrefused = {"" = "is no JSON."}\n'
    )

    page = conformance.page(conformance.read(tmp_path))

    assert "1 of 3 public files are converted; the others name the field." in page
    assert "| `o/n:a` | arm | converted |\n" in page
    assert "| `o/n:b` | az | refused: `[0].id` is x. |\n" in page
    assert "| `o/n:c` | arm | refused: is no JSON. |\n" in page


def test_every_sentence_of_the_description_is_in_exactly_one_state() -> None:
    found = conformance.read()

    assert sum(map(len, found.description.values())) > 120
    assert found.unfounded() == []


@pytest.mark.parametrize(
    ("entry", "founded"),
    [
        ('by = ["R1"]', True),
        ('by = ["R1"], weaker = "it is so"', True),
        ('by = ["R1"], edition = "Latin"', True),
        ('outside = "elsewhere"', True),
        ('superseded = "it is otherwise", edition = "Latin"', True),
        ("", False),
        ('edition = "Latin"', False),
        ('by = ["R2"]', False),
        ('by = ["R1", "R2"]', False),
        ('weaker = "it is so"', False),
        ('outside = "elsewhere", weaker = "it is so"', False),
        ('by = ["R1"], outside = "elsewhere"', False),
        ('by = ["R1"], superseded = "it is otherwise", edition = "Latin"', False),
        ('superseded = "it is otherwise", outside = "elsewhere", edition = "Latin"', False),
        ('superseded = "it is otherwise"', False),
        ('superseded = "it is so", weaker = "it is so", edition = "Latin"', False),
    ],
)
def test_a_sentence_has_exactly_one_state(tmp_path: Path, entry: str, founded: bool) -> None:
    found = conformance.read(described(tmp_path, entry))

    assert found.unfounded() == ([] if founded else ["x"])


@pytest.mark.parametrize(
    ("entry", "row"),
    [
        ('by = ["R1"]', "| x | [R1](#r1) |"),
        ('by = ["R1"], weaker = "of y."', "| x | [R1](#r1); weaker, because of y. |"),
        ('outside = "of y."', "| x | outside: of y. |"),
        ('superseded = "y.", edition = "Latin"', "| x *(Latin)* | superseded: y. |"),
    ],
)
def test_the_page_shows_the_state_of_a_sentence(tmp_path: Path, entry: str, row: str) -> None:
    assert row in conformance.page(conformance.read(described(tmp_path, entry)))


def test_a_state_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="wekaer"):
        conformance.read(described(tmp_path, 'by = ["R1"], wekaer = "a slip"'))


def described(tests: Path, entry: str) -> Path:
    """Write a folder of tests with one requirement and a description of one sentence."""
    (tests / "requirements.toml").write_text('[R1]\ntext = "one"\n')
    comma = ", " if entry else ""
    (tests / "description.toml").write_text(
        f'[[section]]\nname = "a"\nsentences = [{{says = "x"{comma}{entry}}}]\n'
    )
    return tests
