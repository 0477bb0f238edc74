"""A problem of a rule is reported at its place in the file, whatever the form."""

import json
from typing import Any

import pytest

from bendybus.crds.errors import ManifestError
from bendybus.crds.forms import Form
from bendybus.crds.imports import reading
from bendybus.crds.imports.asked import Asked
from tests.crds.terraform_documents import IDS
from tests.crds.test_forms import FILES, SUBSCRIPTION

pytestmark = pytest.mark.requirement("R660")
RULE = "topics/t/subscriptions/one/rules/r"


def with_rule(form: Form, properties: dict[str, Any]) -> Any:
    """Return a file with one rule, which is its fifth entry."""
    found = FILES[form](SUBSCRIPTION, "Standard", {})
    if form is Form.ARM:
        found["resources"].append(
            {"type": "Microsoft.ServiceBus/namespaces/topics/subscriptions/rules",
             "name": "shop/t/one/r", "apiVersion": "2021-11-01", "properties": properties}
        )  # fmt: skip
    elif form is Form.AZ:
        found.append({"id": f"{IDS}/shop/{RULE}", **properties})
    elif form is Form.ASO:
        found["items"].append(
            {"apiVersion": "servicebus.azure.com/v1api20240101", "metadata": {"name": "r"},
             "kind": "NamespacesTopicsSubscriptionsRule",
             "spec": {"owner": {"name": "one"}, **properties}}
        )  # fmt: skip
    return found


def problems(form: Form, document: Any) -> list[str]:
    found = reading.documents("bus.json", json.dumps(document).encode())
    with pytest.raises(ManifestError) as error:
        reading.convert("bus.json", form, found, Asked())
    return [each.field for each in error.value.problems]


@pytest.mark.parametrize(
    ("form", "place"),
    [
        (Form.ARM, "resources[4].properties"),
        (Form.AZ, "[4]"),
        (Form.ASO, "items[4].spec"),
    ],
)
@pytest.mark.parametrize(
    ("properties", "field"),
    [
        ({"sqlFilter": {"sqlExpression": "a >"}}, "sqlFilter.sqlExpression"),
        ({"SQLFilter": {"SqlExpression": "a >"}}, "SQLFilter.SqlExpression"),
        ({"sqlFilter": {}}, "sqlFilter.sqlExpression"),
        ({"filter": {"sqlExpression": "a >"}}, "filter.sqlExpression"),
        ({"action": {"sqlExpression": "SET"}}, "action.sqlExpression"),
        ({"filterType": "CorrelationFilter"}, "correlationFilter"),
        ({"correlationFilter": {}}, "correlationFilter"),
        ({"correlationFilter": {"contentType": "x" * 70_000}}, "correlationFilter.contentType"),
        ({"correlationFilter": {"properties": {"a.b": "x" * 70_000}}},
         'correlationFilter.properties["a.b"]'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_place_is_that_of_the_file(
    form: Form, place: str, properties: dict[str, Any], field: str
) -> None:
    assert problems(form, with_rule(form, properties)) == [f"{place}.{field}"]


def test_fields_of_the_emulator_have_its_names() -> None:
    document = FILES[Form.EMULATOR](SUBSCRIPTION, "Standard", {})
    rule = {"Name": "r", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a >"}}}
    one = document["UserConfig"]["Namespaces"][0]["Topics"][0]["Subscriptions"][0]
    one["Rules"] = [rule]

    [field] = problems(Form.EMULATOR, document)

    assert field.endswith(".Rules[0].Properties.SqlFilter.SqlExpression")
