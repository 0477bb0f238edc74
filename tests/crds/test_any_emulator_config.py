"""Whatever a Config.json of the official emulator holds, it is converted or refused as a whole."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bendybus.crds import emulator_config
from bendybus.crds.conversion import Outcome
from bendybus.crds.errors import ManifestError
from tests.crds.emulator_documents import document


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Give the path of every field that holds no other."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            step = f'["{name}"]' if "." in name else f".{name}" if path else name
            yield from leaves(each, path + step)
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from leaves(each, f"{path}[{number}]")
    else:
        yield path


NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?", fullmatch=True)
TEXTS = st.text("abcXYZ 0.é", min_size=1, max_size=6)
CHECKS = st.booleans()
SHARED = {
    "DeadLetteringOnMessageExpiration": CHECKS,
    "DefaultMessageTimeToLive": st.sampled_from(["PT5M", "PT1H", "P1D", "P1M", "P1Y2M3DT4H"]),
    "ForwardDeadLetteredMessagesTo": st.just(""),
    "ForwardTo": st.just(""),
    "LockDuration": st.sampled_from(["PT5S", "PT1M", "PT5M", "PT1M30S"]),
    "MaxDeliveryCount": st.integers(1, 10),
    "RequiresSession": CHECKS,
}
SENT_TO = {
    "DefaultMessageTimeToLive": SHARED["DefaultMessageTimeToLive"],
    "DuplicateDetectionHistoryTimeWindow": st.sampled_from(["PT5S", "PT20S", "PT5M"]),
    "RequiresDuplicateDetection": CHECKS,
}
# Whatever is beside the fields that the schema names: it allows it.
OTHERS = st.dictionaries(
    st.sampled_from(["x", "Note.1", "EnableExpress"]), st.integers(), max_size=2
)
CORRELATION = st.fixed_dictionaries(
    {"Label": TEXTS},
    optional={
        "ContentType": TEXTS,
        "To": TEXTS,
        "Properties": st.dictionaries(
            st.sampled_from(["a", "b.c"]), TEXTS | CHECKS | st.integers(0, 9), min_size=1
        ),
    },
)
SQL = st.sampled_from(["1 = 1", "sys.Label = 'x' AND a > 3"])
RULES = st.one_of(
    st.fixed_dictionaries(
        {"FilterType": st.just("Correlation"), "CorrelationFilter": CORRELATION},
    ),
    st.fixed_dictionaries(
        {"FilterType": st.just("Sql"), "SqlFilter": st.fixed_dictionaries({"SqlExpression": SQL})},
        optional={"Action": st.sampled_from([{"SqlExpression": "SET a = 1"}, {}])},
    ),
)


def named(
    inner: dict[str, Any], properties: dict[str, Any] | None = None
) -> st.SearchStrategy[Any]:
    made = st.builds(
        lambda known, others: known | others,
        st.fixed_dictionaries({}, optional=properties or {}),
        OTHERS,
    )
    return st.fixed_dictionaries({"Name": NAMES}, optional={"Properties": made, **inner})


def several(each: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(each, max_size=3, unique_by=lambda item: item["Name"].lower())


RULE_LISTS = several(st.fixed_dictionaries({"Name": NAMES, "Properties": RULES}))
TOPICS = named({"Subscriptions": several(named({"Rules": RULE_LISTS}, SHARED))}, SENT_TO)
NAMESPACES = st.fixed_dictionaries(
    {"Name": st.just("sbemulatorns")},
    optional={"Queues": several(named({}, SHARED | SENT_TO)), "Topics": several(TOPICS)},
)
CONFIGS = st.builds(
    lambda namespace, logging: {"UserConfig": {"Namespaces": [namespace], **logging}},
    NAMESPACES,
    st.sampled_from([{}, {"Logging": {"Type": "File,Console"}}]),
)


@pytest.mark.requirement("R500")
@settings(max_examples=60, deadline=None)
@given(CONFIGS)
def test_whatever_the_schema_allows_is_converted_and_every_field_is_in_the_report(
    config: dict[str, Any],
) -> None:
    namespace = config["UserConfig"]["Namespaces"][0]
    topics = {each["Name"].lower() for each in namespace.get("Topics", ())}
    namespace["Queues"] = [
        each for each in namespace.get("Queues", ()) if each["Name"].lower() not in topics
    ]

    conversion = emulator_config.convert("c", config)

    paths = {each.path for each in conversion.findings if each.outcome is not Outcome.DEFAULT}
    missing = [
        path
        for path in leaves(config)
        if not any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in paths)
    ]
    assert missing == []


KEYS = (
    *("UserConfig", "Namespaces", "Name", "Queues", "Topics", "Subscriptions", "Rules"),
    *("Properties", "FilterType", "SqlFilter", "CorrelationFilter", "Action", "", "\u017f"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.requirement("R501")
@settings(max_examples=200, deadline=None)
@given(JSON)
def test_whatever_a_file_holds_it_is_converted_or_refused(value: Any) -> None:
    for config in (value, {"UserConfig": {"Namespaces": [value]}}, document(queues=[value])):
        with contextlib.suppress(ManifestError):
            emulator_config.convert("c", config)
