"""Pictures of the documentation, drawn by code: the architecture, and plots of the figures.

`docs.generate` writes them; the plots are of the run in `reference/performance.json`. SVG, readable
on light and dark paper.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from bench import marks, report
from bench.row import Row
from docs import performance_page
from docs.performance_page import Run

_FONT: Final = "font-family='system-ui, sans-serif'"
_INK: Final = "#1f2933"
_FAINT: Final = "#7b8794"
_OURS: Final = "#2f6fb5"
_OTHERS: Final = "#b8c4d0"
# Of a label: as wide as the widest font that a reader may have.
_CHARACTER: Final = 7
_MARGIN: Final = 16
_GAP: Final = 8
# Behind the longest bar.
_VALUE: Final = 90
_NOTE: Final = "All acknowledge what is on disk, except NATS JetStream, as shipped: before that."
_MANY_NOTE: Final = (
    "All acknowledge sends on disk; only Bendybus confirms that a message is settled."
)
# The systems in the plots, in this order where their figures are equal.
_SYSTEMS: Final = (
    marks.OURS, "Redis streams", "NATS JetStream", marks.QUORUM, marks.CLASSIC,
    "ActiveMQ Artemis", "Kafka, flush.messages=1",
)  # fmt: skip
_BULK: Final = {"send, batches": "send", "receive and settle": "receive_complete"}
# Connections that each await one message at a time.
_MANY: Final = 64
_EACH: Final = {
    "each awaits its own send": "send",
    "each receives one message, and settles it": "receive",
}


@dataclass(frozen=True, slots=True)
class Box:
    """A box with a title and lines below it."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: Sequence[str] = ()
    fill: str = "#eef3f8"

    @property
    def middle(self) -> int:
        """Return where an arrow from above or below meets it."""
        return self.x + self.width // 2


# The picture of many clients is about AMQP.
_OTHER_PROTOCOLS: Final = (marks.MANY_OWN, marks.MANY_HTTP, marks.RABBITMQ_HTTP)


def pictures() -> dict[str, str]:
    """Return file name → SVG of every picture."""
    run = Run.read()
    return {
        "architecture.svg": architecture(),
        "many.svg": bars(
            f"CPU µs per message of all server processes, {_MANY} connections (less is better)",
            [(title, _many(run, work)) for title, work in _EACH.items()],
            most_first=False,
            note=_MANY_NOTE,
        ),
        "throughput.svg": bars(
            "Messages per second, 256 bytes, durable (more is better)",
            [(title, _bulk(run, what, lambda row: row.median)) for title, what in _BULK.items()],
            most_first=True,
        ),
        "processor.svg": bars(
            "CPU µs per message, client and servers together (less is better)",
            [(title, _bulk(run, what, report.cpu_sum)) for title, what in _BULK.items()],
            most_first=False,
        ),
    }


def _many(run: Run, work: str) -> list[tuple[str, float]]:
    return [
        (name, found[1].median)
        for system, name in performance_page.MANY_NAMES.items()
        if system not in _OTHER_PROTOCOLS and (found := run.many(system, work, _MANY))
    ]


def _bulk(run: Run, what: str, figure: Callable[[Row], float]) -> list[tuple[str, float]]:
    known = {(row.system, row.what): row for rows in run.sections.values() for row in rows}
    rows = ((system, known.get((system, what))) for system in _SYSTEMS)
    return [(system, figure(row)) for system, row in rows if row is not None and row.values]


def bars(
    title: str,
    groups: Sequence[tuple[str, Sequence[tuple[str, float]]]],
    *,
    most_first: bool,
    note: str = _NOTE,
) -> str:
    """Return a chart of horizontal bars, on a scale from zero, the best first."""
    most = max((value for _, rows in groups for _, value in rows), default=1.0)
    longest = max((len(name) for _, rows in groups for name, _ in rows), default=0)
    left, room, step = _MARGIN + _CHARACTER * longest + _GAP, 420, 24
    parts = [_text(16, 28, title, size=16, weight="600")]
    y = 56
    for name, rows in groups:
        parts.append(_text(16, y, name, size=13, weight="600"))
        y += 10
        for system, value in sorted(rows, key=lambda row: row[1], reverse=most_first):
            ours = system == "Bendybus"
            width = max(1, round(room * value / most))
            fill = _OURS if ours else _OTHERS
            parts.append(f"<rect x='{left}' y='{y}' width='{width}' height='16' fill='{fill}'/>")
            weight = "600" if ours else "400"
            parts.append(_text(left - _GAP, y + 13, system, anchor="end", weight=weight))
            parts.append(_text(left + width + 6, y + 13, _shown(value), weight=weight))
            y += step
        y += 22
    parts.append(_text(16, y, note, size=11, fill=_FAINT))
    return _svg(left + room + _VALUE, y + 16, parts)


def architecture() -> str:
    """Return the processes and the ways between them."""
    applications = Box(40, 70, 300, 60, "applications", ("bendybus.client · CLI · Spark",))
    manifests = Box(500, 70, 220, 60, "manifests", ("kubectl · Helm",), "#f6f1e7")
    front = Box(40, 200, 300, 84, "front end", (
        "routes by key, fails over, fans out,", "caches, aggregates · stateless",
    ))  # fmt: skip
    operator = Box(500, 200, 220, 84, "operator", (
        "creates pods, certificates, keys;", "reports status",
    ), "#f6f1e7")  # fmt: skip
    partitions = [
        Box(40 + index * 180, 360, 140, 92, f"partition {number}", (role, "SQLite, one file"))
        for index, (number, role) in enumerate(
            (("0", "broker, registrar"), ("1", "broker"), ("…", "broker"), ("15", "broker"))
        )
    ]
    parts = [_text(16, 32, "One bus, many partitions", size=16, weight="600")]
    for box in (applications, manifests, front, operator, *partitions):
        parts.append(_box(box))
    parts.append(_arrow(applications.middle, 130, front.middle, 200))
    parts.append(_text(applications.middle + 10, 170, "gRPC: send, receive, settle, manage"))
    parts.append(_arrow(manifests.middle, 130, operator.middle, 200))
    registrar, *others = partitions
    parts.append(_arrow(operator.middle, 284, registrar.middle + 24, 360, faint=True))
    # What the others pull goes along below them.
    parts.append(_line(registrar.middle, 452, registrar.middle, 474, faint=True))
    parts.append(_line(registrar.middle, 474, others[-1].middle, 474, faint=True))
    for box in partitions:
        parts.append(_arrow(front.middle, 284, box.middle - 24, 360))
    for box in others:
        parts.append(_arrow(box.middle, 474, box.middle, 452, faint=True))
    sentences = (
        "A message has one partition: that of its key, or, without a key, any that works.",
        "No partition knows another's messages. What is acknowledged is on disk.",
        "Solid: frames of messages, on long-lived streams. Dashed: the catalogue of entities,",
        "which partition 0 commits and the others pull.",
    )
    for number, sentence in enumerate(sentences):
        parts.append(_text(40, 502 + 20 * number, sentence))
    return _svg(760, 584, parts)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def _box(box: Box) -> str:
    parts = [
        f"<rect x='{box.x}' y='{box.y}' width='{box.width}' height='{box.height}' rx='8' "
        f"fill='{box.fill}' stroke='{_FAINT}'/>",
        _text(box.middle, box.y + 26, box.title, size=15, weight="600", anchor="middle"),
    ]
    for index, line in enumerate(box.lines):
        parts.append(_text(box.middle, box.y + 46 + index * 18, line, anchor="middle"))
    return "\n".join(parts)


def _line(x1: int, y1: int, x2: int, y2: int, *, faint: bool = False) -> str:
    ink = _FAINT if faint else _INK
    dashes = " stroke-dasharray='4 4'" if faint else ""
    return f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='{ink}'{dashes}/>"


def _arrow(x1: int, y1: int, x2: int, y2: int, *, faint: bool = False) -> str:
    ink = _FAINT if faint else _INK
    angle = math.atan2(y2 - y1, x2 - x1)
    corners = [(x2, y2)]
    for turn in (2.7, -2.7):
        corners.append(
            (round(x2 + 9 * math.cos(angle + turn)), round(y2 + 9 * math.sin(angle + turn)))
        )
    points = " ".join(f"{x},{y}" for x, y in corners)
    return f"{_line(x1, y1, x2, y2, faint=faint)}\n<polygon points='{points}' fill='{ink}'/>"


def _text(
    x: int,
    y: int,
    text: str,
    *,
    size: int = 12,
    weight: str = "400",
    anchor: str = "start",
    fill: str = _INK,
) -> str:
    return (
        f"<text x='{x}' y='{y}' font-size='{size}' font-weight='{weight}' text-anchor='{anchor}' "
        f"fill='{fill}'>{escape(text)}</text>"
    )


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
        f"width='{width}' height='{height}' {_FONT}>\n"
        f"<rect width='{width}' height='{height}' fill='#ffffff'/>\n{body}\n</svg>\n"
    )
