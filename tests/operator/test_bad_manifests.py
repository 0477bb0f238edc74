"""The models refuse every manifest that the end-to-end tests see refused on a cluster."""

from typing import Any

import pytest

from bendybus.operator.decisions import validation
from tests.operator import bad_manifests
from tests.operator.manifests import bus, queue_body

STANDARD = bus(sku={"tier": "Standard"})
ROWS = [("Queue", *row) for row in bad_manifests.QUEUES]
ROWS += bad_manifests.TOPICS_AND_SUBSCRIPTIONS


@pytest.mark.parametrize(("kind", "spec", "sentence"), ROWS)
def test_each_of_them_is_refused_with_its_field(
    kind: str, spec: dict[str, Any], sentence: str
) -> None:
    body = {**queue_body("bad"), "kind": kind}
    body["spec"] = {"namespaceRef": {"name": "orders"}, **spec}

    refused = validation.check_entity(body, None, STANDARD)

    field = sentence.split('"')[1] if '"' in sentence else sentence.split()[0].rstrip(":")
    assert any(field.removeprefix("spec.") in each for each in refused), refused
