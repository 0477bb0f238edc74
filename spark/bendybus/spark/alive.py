"""`python -m bendybus.spark.alive FILE SECONDS`: a liveness probe; fails if the file is older."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str], now_s: float) -> str:
    """Return why the job is taken for dead; "": it is alive."""
    path, seconds = Path(arguments[0]), float(arguments[1])
    try:
        age_s = now_s - path.stat().st_mtime
    except OSError as error:
        return f"{path}: {error.strerror}"
    return f"{path}: no sign of life for {age_s:.0f} s" if age_s > seconds else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], time.time()) or 0)
