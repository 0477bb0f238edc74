"""The documentation: links lead somewhere, and what pages repeat of the code is what it says."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from bendybus.cli.commands.app import app
from bendybus.crds import bundling, loading
from bendybus.domain import errors, shared_access
from bendybus.frontend.core.metrics import Metrics as FrontEndMetrics
from bendybus.frontend.listeners import grpc_methods
from bendybus.frontend.security import authenticator
from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.operator.decisions import storage
from bendybus.operator.decisions.conditions import (
    CERTIFICATE_OVERDUE,
    MANIFESTS_NOT_SEEN,
    READY,
    RECONCILING,
    STALLED,
    WARNINGS,
)
from bendybus.operator.decisions.reasons import Reason
from bendybus.operator.kubernetes import names
from bendybus.operator.metrics import Metrics
from bendybus.partition_server import metrics
from bendybus.partition_server.service import roles
from bendybus.partition_server.service.hosts import Hosts
from bendybus.spark.jobs.runtime import Metrics as PipelineMetrics
from bendybus.v1 import management_pb2, pipeline_pb2, receiver_pb2, sender_pb2, transaction_pb2
from bendybus.wire.refusals import Refusals
from docs import generate, tables
from tests.test_tidy import ROOT, name_of, tracked

PAGES = [path for path in tracked() if path.suffix == ".md"]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
# The command, behind the options that come before it.
BENDYBUS = re.compile(
    r"^ *bendybus(?: --kube| (?:-n|--namespace|--context|--bus|--data) \S+)* ([a-z]+)", re.MULTILINE
)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as forges make them."""
    plain = (re.sub(r"[^\w -]", "", found.lower()) for found in HEADING.findall(path.read_text()))
    return {text.strip().replace(" ", "-") for text in plain}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(link)

    assert broken == []


def named(collectors: list[Collector]) -> set[str]:
    found: set[str] = set()
    for collector in collectors:
        metric: Metric
        for metric in collector.collect():
            found.add(f"{metric.name}_total" if metric.type == "counter" else metric.name)
    return found


def test_the_page_of_metrics_has_every_metric_and_no_other() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    front_end, rest = page.split("## Partition server")
    partition, rest = rest.split("## Operator")
    operator, pipelines = rest.split("## Data pipelines")

    def listed(part: str) -> set[str]:
        return set(re.findall(r"^\| `(bendybus_\w+)`", part, re.MULTILINE))

    assert listed(front_end) == named([FrontEndMetrics().registry])
    refusals = Refusals(logging.getLogger("test"), "peer")
    assert listed(partition) == named([metrics.collector(Hosts({}), refusals)])
    assert listed(operator) == named([Metrics().registry])
    assert listed(pipelines) == named([PipelineMetrics("capture").registry])


def test_the_page_of_security_has_every_method_with_its_roles_or_right() -> None:
    page = (ROOT / "docs" / "reference" / "security.md").read_text(encoding="utf-8")

    def short(method: str) -> str:
        return method.rpartition(".")[2].replace("/", ".")

    def rights(rule: authenticator.Rule) -> str:
        return rule.right if rule.other is None else f"{rule.right} or {rule.other}"

    expected = {
        f"| `{short(method)}` | {', '.join(sorted(allowed))} |"
        for method, allowed in roles.METHODS.items()
    } | {
        f"| `{short(name)}` | {rights(authenticator.RULES[method.operation])}"
        f"{'' if method.on_entity else ', namespace'} |"
        for name, method in grpc_methods.METHODS.items()
    }
    causes = {f"`{cause}`" for cause in shared_access.Cause}

    assert expected == set(re.findall(r"^\| `[A-Z]\w+\.\w+` \| .+ \|$", page, re.MULTILINE))
    assert {cause for cause in causes if f"| {cause} |" not in page} == set()


def test_every_method_of_the_services_is_in_the_tables_of_security() -> None:
    def methods(*modules: Any) -> set[str]:
        services = [s for module in modules for s in module.DESCRIPTOR.services_by_name.values()]
        return {f"/{s.full_name}/{m.name}" for s in services for m in s.methods}

    ours = {name for name in roles.METHODS if "bendybus" in name}
    assert ours == methods(partition_pb2, entity_pb2)
    assert set(grpc_methods.METHODS) == methods(
        sender_pb2, receiver_pb2, transaction_pb2, management_pb2, pipeline_pb2
    )


def test_the_page_of_kubernetes_has_every_annotation_label_and_condition_and_no_other() -> None:
    page = (ROOT / "docs" / "reference" / "kubernetes.md").read_text(encoding="utf-8")
    constants = {**vars(names), **vars(storage)}
    known = {
        value
        for name, value in constants.items()
        if name.endswith(("_ANNOTATION", "_LABEL")) and isinstance(value, str)
    }

    rows = re.findall(r"^\| `([\w./-]+)` \|", page, re.MULTILINE)

    assert {row for row in rows if row.startswith("bendybus.io/")} == known
    assert {row for row in rows if "/" not in row} == {
        READY,
        RECONCILING,
        STALLED,
        CERTIFICATE_OVERDUE,
        MANIFESTS_NOT_SEEN,
        *WARNINGS,
    }


def test_every_error_has_advice() -> None:
    assert set(tables.ADVICE) == {kind.reason for kind in errors.all_errors()}


@pytest.mark.parametrize("name", ["errors.md", "limits.md", "manifests.md"])
def test_generated_pages_are_what_the_code_says(name: str) -> None:
    makers = {
        "errors.md": tables.errors_page,
        "limits.md": tables.limits_page,
        "manifests.md": generate.manifests,
    }

    text = (generate.REFERENCE / name).read_text(encoding="utf-8")

    assert text.endswith(makers[name]()), "stale: run make docs"


def test_every_room_says_what_it_is() -> None:
    rooms = {path.parts[len(ROOT.parts)] for path in ROOT.glob("*/bendybus")}

    assert {room for room in rooms if not (ROOT / room / "README.md").exists()} == set()


def test_the_list_of_decisions_is_whole() -> None:
    folder = ROOT / "docs" / "internals" / "decisions"
    listed = set(LINK.findall((folder / "README.md").read_text(encoding="utf-8")))

    assert {path.name for path in folder.glob("2*.md")} == listed


def test_every_how_to_is_in_the_list() -> None:
    folder = ROOT / "docs" / "how-to"
    listed = set(LINK.findall((folder / "README.md").read_text(encoding="utf-8")))

    assert {path.name for path in folder.glob("*.md")} - {"README.md"} <= listed


def test_every_reason_of_a_status_has_a_line_in_troubleshooting_and_no_other() -> None:
    page = ROOT / "docs" / "how-to" / "troubleshoot-on-kubernetes.md"
    table = page.read_text(encoding="utf-8").partition("## By reason")[2].partition("\n## ")[0]

    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == {
        *(reason.value for reason in Reason)
    } | {"REASON"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_code_blocks_exist(page: Path) -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", text, re.MULTILINE))
    commands = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]

    blocks = "\n".join(SHELL.findall(page.read_text(encoding="utf-8")))

    assert set(re.findall(r"(?:^|&& )make ([a-z0-9-]+)", blocks, re.MULTILINE)) <= targets
    assert set(BENDYBUS.findall(blocks)) <= commands


def is_command(words: list[str]) -> bool:
    """Whether the words behind `bendybus` begin with a command, and with one of its commands."""
    command: Any = typer.main.get_command(app)
    while within := getattr(command, "commands", None):
        if not words or words[0] not in within:
            return False
        command, words = within[words[0]], words[1:]
    return True


def test_the_page_of_azure_commands_names_commands_that_exist() -> None:
    page = (ROOT / "docs" / "reference" / "azure-commands.md").read_text(encoding="utf-8")
    commands = [each.split() for each in re.findall(r"`bendybus ([a-z][^`]*)`", page)]

    assert len(commands) > 20
    assert [words for words in commands if not is_command(words)] == []
    assert not is_command(["create", "namespace", "NAME"])


def test_the_example_of_topics_is_a_bus() -> None:
    file = ROOT / "examples" / "kubernetes" / "topics.yaml"

    bundle = bundling.bundle(loading.load([file]))

    assert [wish.kind for wish in bundle.entities] == ["topic", "subscription", "subscription"]


@pytest.mark.parametrize("name", sorted((ROOT / "examples" / "kubernetes").glob("*.yaml")))
def test_examples_for_kubernetes_are_manifests(name: Path) -> None:
    text = name.read_text(encoding="utf-8")

    assert all({"apiVersion", "kind", "metadata"} <= set(each) for each in yaml.safe_load_all(text))
