"""`python -m charts.generate [--check]`: write the parts of the chart that come from elsewhere.

The CRDs, from crds/generated/, become templates that values switch. The chart's README.md lists
the values with the comments that stand above them in values.yaml.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).parent / "bendybus"
CRDS: Final = Path(__file__).parents[1] / "crds" / "generated"
_MARK: Final = "<!-- values -->"
_END: Final = "<!-- end of values -->"
_HEAD: Final = """\
{{- /* Generated from crds/generated/ by `make chart`; not edited. */ -}}
{{- if .Values.crds.enabled }}
"""
_KEEP: Final = """\
  labels:
    app.kubernetes.io/part-of: bendybus
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart. `default` is JSON as YAML reads it."""

    path: str
    default: str
    what: str


def files() -> dict[Path, str]:
    """Return path → text of everything generated."""
    made = {
        CHART / "templates" / "crds" / path.name: crd_template(path.read_text(encoding="utf-8"))
        for path in sorted(CRDS.glob("*.yaml"))
    }
    made[CHART / "README.md"] = readme((CHART / "README.md").read_text(encoding="utf-8"))
    return made


def crd_template(text: str) -> str:
    """Return a CRD as a template. Raises ValueError for text that Helm would evaluate."""
    if "{{" in text:
        raise ValueError("a CRD holds {{, which Helm would evaluate.")
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("#")]
    name = next(index for index, line in enumerate(lines) if line.startswith("  name: "))
    return "".join([_HEAD, *lines[: name + 1], _KEEP, *lines[name + 1 :], "{{- end }}\n"])


def readme(text: str) -> str:
    """Return the README with a current table of values."""
    before, _, rest = text.partition(_MARK)
    _, _, after = rest.partition(_END)
    rows = [
        f"| `{value.path}` | `{value.default}` | {value.what} |"
        for value in values((CHART / "values.yaml").read_text(encoding="utf-8"))
    ]
    table = ["", "| value | default | what |", "|---|---|---|", *rows, ""]
    return before + _MARK + "\n".join(table) + _END + after


def values(text: str) -> Iterator[Value]:
    """Yield the values with the comments above them. Raises ValueError for one without."""
    lines = text.splitlines()
    yield from _values(yaml.compose(text), lines, "")


def _values(node: Any, lines: list[str], prefix: str) -> Iterator[Value]:
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        comment = _comment_above(lines, key.start_mark.line)
        if isinstance(value, yaml.MappingNode) and value.value and not value.flow_style:
            if path.endswith((".labels", ".resources")):
                yield Value(path, _json(value), _said(path, comment))
            else:
                yield from _values(value, lines, f"{path}.")
            continue
        yield Value(path, _json(value), _said(path, comment))


def _said(path: str, comment: str) -> str:
    if not comment:
        raise ValueError(f"values.yaml: {path} has no comment above it.")
    return comment


def _comment_above(lines: list[str], number: int) -> str:
    """Return the comment that ends on the line before `number` (from 0) as running text."""
    found: list[str] = []
    while number and lines[number - 1].lstrip().startswith("#"):
        number -= 1
        found.insert(0, lines[number].lstrip().removeprefix("#").strip())
    return " ".join(found).replace("|", "\\|")


def _json(node: Any) -> str:
    value = yaml.safe_load(yaml.serialize(node))
    if value == "":
        return '""'
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.strip().removesuffix("...").strip()


def main() -> int:
    """Write the files, or with --check compare them; 1 when one is stale."""
    stale = []
    for path, text in files().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path.relative_to(CHART.parent)))
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"charts: {', '.join(stale)} stale. Run make chart.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
