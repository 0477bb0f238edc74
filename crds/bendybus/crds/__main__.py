"""`python -m bendybus.crds [--check]`: write the CRDs to crds/generated/, or compare them."""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from bendybus.crds import definitions

GENERATED: Final = Path(__file__).parents[2] / "generated"
_HEADER: Final = "# Generated from the models in crds/bendybus/crds/ by `make crds`; not edited.\n"


def rendered() -> dict[str, str]:
    """Return file name → text of every CRD."""
    return {
        f"{definition.plural}.yaml": _HEADER + _dump(definitions.crd(definition))
        for definition in definitions.ALL
    }


def _dump(document: dict[str, Any]) -> str:
    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return yaml.dump(document, Dumper=Dumper, sort_keys=False, width=100, allow_unicode=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 when --check finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m bendybus.crds", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--directory", type=Path, default=GENERATED)
    options = parser.parse_args(arguments)
    stale = []
    for name, text in rendered().items():
        path = options.directory / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if options.check and stale:
        print(f"{', '.join(stale)}: not what the models say. Run make crds.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
