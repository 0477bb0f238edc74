"""Values as JSON, and back."""

from typing import Any

import pytest

from bendybus.cli.output import json_values


@pytest.mark.requirement("R598")
@pytest.mark.parametrize(
    "value",
    [
        {"TYPE": "UUID", "VALUE": "x"},
        {"TYPE": "BINARY", "VALUE": "YQ=="},
        {"TYPE": "MAP", "VALUE": {"TYPE": 1, "VALUE": 2}},
        [{"TYPE": None, "VALUE": [{"TYPE": "INT", "VALUE": 5}]}],
        {"TYPE": "UUID", "VALUE": "x", "more": 1},
    ],
)
def test_a_map_that_looks_like_a_typed_value_stays_a_map(value: Any) -> None:
    written = json_values.to_json(value)

    assert json_values.from_json(written) == value


@pytest.mark.parametrize("value", [1, "x", [1], None])
def test_a_map_is_an_object(value: Any) -> None:
    sent = json_values.from_json({"TYPE": "MAP", "VALUE": value})

    # The client refuses it by its name.
    assert sent == ("MAP", value)
