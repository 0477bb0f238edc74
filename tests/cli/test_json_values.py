"""Values as JSON, and back."""

import math
from typing import Any

import pytest

from bendybus.cli.output import json_values
from bendybus.client.messages import values


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


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ({"TYPE": "MAP", "VALUE": 1}, "invalid MAP: 1"),
        ({"TYPE": "MAP", "VALUE": [1]}, r"invalid MAP: \[1\]"),
        ({"TYPE": "sedan", "VALUE": 3}, "'SEDAN' is no TYPE; known: BINARY, .*MAP"),
        ([{"TYPE": ["INT"], "VALUE": 3}], "is no TYPE"),
        # As a float of 32 bits it would be infinite.
        ({"TYPE": "FLOAT", "VALUE": 1e39}, r"invalid FLOAT: 1e\+39"),
        ({"TYPE": "DOUBLE", "VALUE": 10**400}, "invalid DOUBLE: 1000"),
        ({"TYPE": "DOUBLE", "VALUE": math.inf}, "invalid DOUBLE: inf"),
        (math.inf, 'Infinity is no number of JSON, .* write {"TYPE": "DOUBLE", "VALUE": "Inf'),
        (math.nan, 'for NaN itself write {"TYPE": "DOUBLE", "VALUE": "NaN"}'),
    ],
)
def test_what_would_be_sent_as_another_value_is_refused(typed: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        json_values.from_json(typed)


def test_a_value_may_be_nested_as_deep_as_the_client_sends_it() -> None:
    fits: Any = 1
    for _ in range(values.NESTED_MAX):
        fits = [fits]

    assert values.from_value(values.to_value(json_values.from_json(fits))) == fits
    with pytest.raises(ValueError, match="nested at most 30 deep"):
        json_values.from_json([fits])
