"""YAML is read within bounds, and what is wrong is said with its line."""

import time

import pytest

from bendybus.crds import yaml_text
from bendybus.crds.errors import ManifestError

pytestmark = pytest.mark.requirement("R659")
# Far more than any of these takes.
SOON_S = 20.0


def documents(text: str | bytes) -> list[object]:
    data = text if isinstance(text, bytes) else text.encode()
    return [each for _, each in yaml_text.parse("bus.yaml", data)]


def refusal(text: str | bytes) -> str:
    started_s = time.monotonic()
    with pytest.raises(ManifestError) as error:
        documents(text)
    assert time.monotonic() - started_s < SOON_S
    return str(error.value)


def test_documents_have_numbers_and_empty_ones_are_left_out() -> None:
    found = list(yaml_text.parse("bus.yaml", b"\xef\xbb\xbf---\n---\na: 1\n---\nb: [x]\n"))

    assert found == [(2, {"a": 1}), (3, {"b": ["x"]})]


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "WRITTEN_MAX", 1_000)

    assert refusal("- x\n" * 1_001).startswith("bus.yaml, line 1000: is not YAML: has more than")
    assert documents("- x\n" * 999) == [["x"] * 999]


def test_aliases_and_merge_keys_are_allowed() -> None:
    text = "base: &b {lock: PT1M, count: 3}\nmine:\n  <<: *b\n  count: 5\nsame: *b\n"

    assert documents(text) == [
        {
            "base": {"lock": "PT1M", "count": 3},
            "mine": {"lock": "PT1M", "count": 5},
            "same": {"lock": "PT1M", "count": 3},
        }
    ]


def test_a_list_of_merges_takes_the_first() -> None:
    text = "- &a {x: 1}\n- &b {x: 2, y: 3}\n- {<<: [*a, *b]}\n"

    assert documents(text) == [[{"x": 1}, {"x": 2, "y": 3}, {"x": 1, "y": 3}]]


@pytest.mark.parametrize("pair", ["[*a{0}, *a{0}]", "{{x: *a{0}, y: *a{0}}}"])
def test_a_bomb_of_aliases_is_refused(pair: str) -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{at + 1}: &a{at + 1} {pair.format(at)}" for at in range(60)]

    assert "more than 2,000,000 values" in refusal("\n".join(lines))


def test_a_bomb_of_merges_is_refused() -> None:
    lines = ["a0: &a0 {" + ", ".join(f"k{at}: 1" for at in range(1_000)) + "}"]
    lines += [f"a{at + 1}: &a{at + 1} {{<<: [*a{at}, *a{at}]}}" for at in range(13)]

    assert "more than 2,000,000 values" in refusal("\n".join(lines))


def test_many_merges_of_a_large_mapping_are_refused() -> None:
    lines = ["base: &b {" + ", ".join(f"k{at}: 1" for at in range(5_000)) + "}"]
    lines += [f"m{at}: {{<<: *b}}" for at in range(5_000)]

    assert "more than 2,000,000 values" in refusal("\n".join(lines))


@pytest.mark.parametrize(
    "text",
    ["[" * 10_000, "{a: " * 10_000, "- " * 10_000 + "x", "? " * 5_000],
    ids=["lists", "mappings", "entries", "keys"],
)
def test_deep_nesting_is_refused(text: str) -> None:
    assert "nested too deeply" in refusal(text)


@pytest.mark.parametrize("text", ["&a [*a]", "&a {b: *a}", "&a {? *a : 1}"])
def test_what_holds_itself_is_refused(text: str) -> None:
    assert refusal(text).startswith("bus.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", "bus.yaml, line 3: is not YAML: the key 'a' is there twice."),
        ("a:\n  1: x\n  '1': y\n", "bus.yaml, line 3: is not YAML: the key '1' is there twice."),
        ("a: [1,\n", "bus.yaml, line 2: is not YAML"),
        ("a: *none\n", "bus.yaml, line 1: is not YAML: found undefined alias"),
        ("? [a]\n: b\n", "bus.yaml, line 1: is not YAML: found unhashable key"),
        ("a: !!int x\n", "bus.yaml, line 1: is not YAML: a value is no int."),
        ("a: !!int ''\n", "bus.yaml, line 1: is not YAML: a value is no int."),
        ("a: !!bool x\n", "bus.yaml, line 1: is not YAML: a value is no bool."),
        ("a: !!timestamp x\n", "bus.yaml, line 1: is not YAML: timestamp is no type that JSON has"),
        ("a: !!set {b}\n", "bus.yaml, line 1: is not YAML: set is no type that JSON has."),
        ("a: !!binary eA==\n", "bus.yaml, line 1: is not YAML: binary is no type that JSON has."),
        ("a: !!python/object:os.system x\n", "bus.yaml, line 1: is not YAML: could not determine"),
        (b"a: \xff\n", "bus.yaml: is not UTF-8 text. Save it as UTF-8."),
        ("a: \x07\n", "bus.yaml: is not YAML"),
        (f"a: {'9' * 5_000}\n", "bus.yaml, line 1: is not YAML: a value is no int."),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str | bytes, said: str) -> None:
    assert refusal(text).startswith(said)


@pytest.mark.parametrize("date", ["2026-01-31", "2026-02-31", "2026-01-31T00:00:00Z"])
def test_dates_are_text(date: str) -> None:
    assert documents(f"a: {date}\n{date}: b\n") == [{"a": date, date: "b"}]


def test_keys_are_text() -> None:
    found = documents("{1: a, true: b, null: c, 1.5: d, no: e}")

    assert found == [{"1": "a", "true": "b", "null": "c", "1.5": "d", "false": "e"}]
