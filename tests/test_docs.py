"""The documentation: links lead somewhere, and what pages repeat of the code is what it says."""

import logging
import re
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from bendybus.domain import errors
from bendybus.frontend.figures import Figures
from bendybus.partition_server import metrics
from bendybus.partition_server.service import Hosts
from bendybus.wire.refusals import Refusals
from docs import generate, tables
from tests.test_tidy import ROOT, name_of, tracked

PAGES = [path for path in tracked() if path.suffix == ".md"]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
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
    front_end, partition = page.split("## Partition server")

    def listed(part: str) -> set[str]:
        return set(re.findall(r"^\| `(bendybus_\w+)`", part, re.MULTILINE))

    assert listed(front_end) == named([Figures().registry])
    refusals = Refusals(logging.getLogger("test"), "peer")
    assert listed(partition) == named([metrics.collector(Hosts({}), refusals)])


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
