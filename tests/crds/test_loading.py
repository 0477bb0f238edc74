"""Files become manifests, or errors that say where and what to do."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel

from bendybus.crds import loading
from bendybus.crds.errors import ManifestError
from bendybus.crds.manifest import API_VERSION

QUEUE = "apiVersion: bendybus.io/v1alpha1\nkind: Queue\nmetadata: {name: orders}\n"


def _problems(tmp_path: Path, text: str) -> str:
    file = tmp_path / "bus.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        loading.load([file])
    return str(caught.value).replace(str(file), "bus.yaml")


def test_a_file_of_several_documents_becomes_manifests_in_order(tmp_path: Path) -> None:
    file = tmp_path / "bus.yaml"
    file.write_text(f"---\n{QUEUE}---\n{QUEUE.replace('orders', 'bills')}---\n", encoding="utf-8")

    loaded = loading.load([file])

    assert [item.manifest.metadata.name for item in loaded] == ["orders", "bills"]
    assert loaded[1].source.endswith("document 2")


def test_a_directory_stands_for_the_yaml_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(QUEUE, encoding="utf-8")
    (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")

    loaded = loading.load([tmp_path])

    assert len(loaded) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            QUEUE + "spec: {maxDelveryCount: 3}",
            "bus.yaml, document 1, Queue 'orders': spec.maxDelveryCount: is not a known field. "
            "Did you mean maxDeliveryCount?",
        ),
        (
            QUEUE + "spec: {namespaceRef: {nam: x}}",
            "bus.yaml, document 1, Queue 'orders': spec.namespaceRef.nam: is not a known field. "
            "Did you mean name?",
        ),
        (
            QUEUE + "spec: {lockDuration: 30}",
            "bus.yaml, document 1, Queue 'orders': spec.lockDuration: must be an ISO "
            "8601 duration such as PT30S, PT5M or P7D (got 30).",
        ),
        (
            QUEUE + "spec: {enablePartitioning: 'yes'}",
            "bus.yaml, document 1, Queue 'orders': spec.enablePartitioning: must be true or "
            "false (got 'yes').",
        ),
        (
            QUEUE.replace("kind: Queue", "kind: Queeu"),
            "bus.yaml, document 1, Queeu 'orders': kind: 'Queeu' is not known. Did you mean Queue?",
        ),
        (
            QUEUE.replace("kind: Queue", "kind: Subscription"),
            "bus.yaml, document 1, Subscription 'orders': spec: is missing. It is required.",
        ),
        (
            QUEUE.replace("kind: Queue", "kind: Subscription") + "spec: {topicname: t}",
            "bus.yaml, document 1, Subscription 'orders': spec.topicName: is missing. It is "
            "required.",
        ),
        (
            QUEUE.replace("v1alpha1", "v1"),
            "bus.yaml, document 1, Queue 'orders': apiVersion: 'bendybus.io/v1' must be "
            "bendybus.io/v1alpha1.",
        ),
        (
            QUEUE.replace("{name: orders}", "{}"),
            "bus.yaml, document 1, Queue: metadata.name: is missing. It is required.",
        ),
        (QUEUE + "kind: Queue", "bus.yaml, line 4: is not YAML: the key 'kind' is there twice."),
        ("a: [", "bus.yaml, line 1: is not YAML: expected the node content, but found"),
        ("just text", "bus.yaml, document 1: is not a manifest: it needs apiVersion, kind"),
    ],
)
def test_what_is_wrong_is_named_with_file_document_field_and_way_out(
    tmp_path: Path, text: str, sentence: str
) -> None:
    problems = _problems(tmp_path, text)

    assert sentence in problems


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    text = QUEUE + "spec: {status: Activ, maxDeliveryCount: 0}\n---\nkind: Nothing\n"

    problems = _problems(tmp_path, text).splitlines()

    assert len(problems) == 3


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"no such file or directory. Check the path after -f"):
        loading.load([tmp_path / "missing.yaml"])


@pytest.mark.parametrize("count", [3, 0, 32, True])
def test_a_premium_namespace_has_1_2_4_8_or_16_partitions(count: object) -> None:
    document = {
        "apiVersion": "bendybus.io/v1alpha1",
        "kind": "BusNamespace",
        "metadata": {"name": "big"},
        "spec": {"sku": {"tier": "Premium"}, "premiumMessagingPartitions": count},
    }

    result = loading.parse("bus.yaml", document)

    assert isinstance(result, list)
    assert result[0].field == "spec.premiumMessagingPartitions"
    assert "not one of 1, 2, 4, 8, 16" in result[0].sentence


def test_only_premium_may_choose_its_partitions() -> None:
    document = {
        "apiVersion": "bendybus.io/v1alpha1",
        "kind": "BusNamespace",
        "metadata": {"name": "small"},
        "spec": {"premiumMessagingPartitions": 4},
    }

    result = loading.parse("bus.yaml", document)

    assert isinstance(result, list)
    assert "only with sku.tier Premium" in result[0].sentence


WRONG: Final[list[Any]] = [
    *(None, 5, -1, 10**12, 1.5, float("nan"), "", "x", True, [], [1], {}, {"a": 1}),
    *([{"name": 5}], [{"name": "r", "sqlFilter": 7}], "x" * 300),
    [{"name": "r", "sqlFilter": {"sqlExpression": "a ="}}],
]
# Words of the library that finds the errors, and names of our classes.
FOREIGN = re.compile(
    r"[Ii]nput|[Ff]ield required|[Ee]xtra|valid (dict|int|bool|str|list)|should|instance of|pars"
)


def fields(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        yield (own := (*path, field.alias or name))
        within = loading._model_in(field.annotation)
        if within is not None:
            yield from fields(within, own)


@pytest.mark.requirement("R370")
@pytest.mark.parametrize("kind", loading.KINDS)
def test_every_wrong_value_of_every_field_is_told_of_in_our_own_words(kind: str) -> None:
    told = set()
    for path in fields(loading.KINDS[kind]):
        for value in WRONG:
            made: Any = {path[-1]: value}
            for part in reversed(path[:-1]):
                made = {part: made}
            base = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "a"}}
            found = loading.parse("bus.yaml", base | made)
            told |= {each.sentence for each in found} if isinstance(found, list) else set()

    assert {each for each in told if FOREIGN.search(each)} == set()
    assert "must be a mapping of fields (got 'x')." in told
    assert "must be true or false (got 5)." in told or kind == "BusNamespace"
