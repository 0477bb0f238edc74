"""`python -m tools.select_pins`: write requirements/image-spark.txt, a part of spark.txt.

The Spark image stands on the other one, so it adds only what that one lacks.
"""

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1] / "requirements"
SOURCE: Final = ROOT / "spark.txt"
TARGET: Final = ROOT / "image-spark.txt"
BASE: Final = ROOT / "image.txt"
# What Spark, Arrow and pandas are, with all that they need.
WANTED: Final = (
    "numpy", "pandas", "py4j", "pyarrow", "pyspark", "python-dateutil", "pytz", "six", "tzdata",
)  # fmt: skip


def selected() -> str:
    """Return the text of the file."""
    head = "".join(
        line for line in TARGET.read_text("utf-8").splitlines(keepends=True) if line[0] == "#"
    )
    there = pins(BASE)
    return head + "".join(
        text for name, text in pins(SOURCE).items() if name in WANTED and name not in there
    )


def pins(path: Path) -> dict[str, str]:
    """Return the text of each pin of a file, hashes and all, by name."""
    blocks = re.split(r"^(?=[a-z0-9])", path.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {block.partition("==")[0]: block for block in blocks}


if __name__ == "__main__":
    TARGET.write_text(selected(), encoding="utf-8")
    sys.exit()
