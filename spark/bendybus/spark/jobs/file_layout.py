"""Names of captured files: what a file must hold names it, so a replay gives the same names."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

from bendybus.domain import sequence_number
from bendybus.spark.errors import OptionError

PARQUET: Final = "parquet"
JSON_LINES: Final = "jsonl"
COMPRESSIONS: Final = {PARQUET: ("zstd", "snappy", "none"), JSON_LINES: ("none", "gzip")}
FIELDS: Final = ("entity", "partition", "year", "month", "day", "hour")
FOLDER: Final = "{partition}/{year}/{month}/{day}/{hour}"
HOUR_S: Final = 3_600
# Of Spark, Arrow and pandas: what begins with these is no data.
HIDDEN: Final = ("_", ".")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where files go and what they are. `folder`: a template of FIELDS, by enqueued time in UTC."""

    format: str = PARQUET
    # "": the first one of the format.
    compression: str = ""
    folder: str = FOLDER
    # Names what is taken of a range, in files; "": all of it. What holds less is another file.
    selection: str = ""

    def check(self, entity: str = "entity") -> None:
        """Raise OptionError for what cannot be, of files of an entity."""
        if self.format not in COMPRESSIONS:
            raise OptionError(f"--format: must be parquet or jsonl (got {self.format!r})")
        allowed = COMPRESSIONS[self.format]
        if self.compression and self.compression not in allowed:
            raise OptionError(
                f"--compression: must be {', '.join(allowed[:-1])} or {allowed[-1]} with "
                f"{self.format} (got {self.compression!r})"
            )
        fields = ", ".join(f"{{{name}}}" for name in FIELDS)
        try:
            found = self.path(entity, 1, 0, ":1:2")
        except (KeyError, IndexError, ValueError, AttributeError):
            raise OptionError(
                f"--path-template: must be made of text and {fields} (got {self.folder!r})"
            ) from None
        if "{partition}" not in self.folder or ".." in PurePosixPath(found).parts:
            raise OptionError(
                "--path-template: must have {partition}, and stay below --out "
                f"(got {self.folder!r})"
            )
        hidden = [part for part in PurePosixPath(found).parts if part.startswith(HIDDEN)]
        if hidden:
            raise OptionError(
                "--path-template: no folder may begin with _ or . as readers pass over it "
                f"(got {self.folder!r}, and so {hidden[0]!r})"
            )

    @property
    def codec(self) -> str:
        """The compression: none, or its name."""
        return self.compression or COMPRESSIONS[self.format][0]

    def path(self, entity: str, partition: int, hour: int, range_: str) -> str:
        """Return the file of the rows of a range that were enqueued in an hour since 1970.

        `range_`: as in the column `range`. The incarnation is in the name, as numbers of another
        one start over.
        """
        moment = datetime.fromtimestamp(hour * HOUR_S, UTC)
        folder = self.folder.format(
            entity=entity.replace("$", ""),
            partition=partition,
            year=f"{moment.year:04}",
            month=f"{moment.month:02}",
            day=f"{moment.day:02}",
            hour=f"{moment.hour:02}",
        )
        incarnation, after, upto = range_.rsplit(":", 2)
        first = sequence_number.counter_of(int(after)) + 1
        last = sequence_number.counter_of(int(upto))
        parts = (f"{first:012}", f"{last:012}", incarnation, self.selection)
        name = "-".join(filter(None, parts))
        ending = f"{self.format}.gz" if self.codec == "gzip" else self.format
        return f"{folder.strip('/')}/{name}.{ending}"
