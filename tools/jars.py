"""Jars from Maven: pinned in lists by coordinates and SHA-256, and fetched by `mvn`.

A list, NAME.jars, has a line for each jar. Above these, lines `root group:artifact:version` are
what they are chosen from, with all that it depends on at run time, and lines `without
group:artifact` what of that is not needed. Jars are kept in the virtual environment, and fetched
when one is missing or differs; `mvn` takes them from its own cache or from the repository that it
is set up for. To change a version: edit the roots, run `python -m tools.jars LIST`, and look at the
diff.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

FOLDER: Final = Path(sys.prefix) / "jars"
# Fetching is part of a benchmark's time; what arrived by then is in the cache of the next run.
_FETCH_S: Final = 200.0
_ERROR_CHARACTERS: Final = 200
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bendybus</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY: Final = """\
    <dependency>
      <groupId>{jar.group}</groupId>
      <artifactId>{jar.artifact}</artifactId>
      <version>{jar.version}</version>{classifier}
      <exclusions>{exclusions}</exclusions>
    </dependency>"""
_CHOICES: Final = ("root ", "without ")
_EXCLUSION: Final = "<exclusion><groupId>{0}</groupId><artifactId>{1}</artifactId></exclusion>"


class UnavailableError(Exception):
    """Raised when jars cannot be fetched, or are not the pinned ones; the text is one line."""


@dataclass(frozen=True, slots=True)
class Jar:
    """Maven coordinates, and the hash of the file; no hash while it is being chosen."""

    group: str
    artifact: str
    version: str
    classifier: str = ""
    sha256: str = ""

    @classmethod
    def parse(cls, line: str) -> Self:
        """Return the jar of a line `group:artifact:version[:classifier] sha256`."""
        coordinates, _, sha256 = line.partition(" ")
        group, artifact, version, *classifier = coordinates.split(":")
        return cls(group, artifact, version, "".join(classifier), sha256.strip())

    @property
    def line(self) -> str:
        """The line that `parse` reads."""
        parts = (self.group, self.artifact, self.version, self.classifier)
        return f"{':'.join(part for part in parts if part)} {self.sha256}"

    @property
    def path(self) -> Path:
        """The path of the file in a folder that is laid out like a Maven repository."""
        name = "-".join(part for part in (self.artifact, self.version, self.classifier) if part)
        return Path(*self.group.split("."), self.artifact, self.version, f"{name}.jar")


@dataclass(frozen=True, slots=True)
class JarList:
    """A list of jars."""

    head: Sequence[str]
    """Its lines above the first jar."""
    jars: Sequence[Jar]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what a file lists."""
        lines = path.read_text(encoding="utf-8").splitlines()
        head = [line for line in lines if line.startswith(("#", *_CHOICES))]
        return cls(head, [Jar.parse(line) for line in lines if line and line not in head])

    @property
    def roots(self) -> list[str]:
        """`group:artifact:version` of what the jars are chosen from."""
        return self._named("root ")

    @property
    def excluded(self) -> list[str]:
        """`group:artifact` of dependencies that are not needed."""
        return self._named("without ")

    def _named(self, choice: str) -> list[str]:
        return [line.removeprefix(choice) for line in self.head if line.startswith(choice)]


def classpath(path: Path, folder: Path = FOLDER) -> str:
    """Return the class path of a list; fetch what is missing, refuse what differs."""
    jars = JarList.read(path).jars
    wrong = [jar for jar in jars if _sha256(folder / jar.path) != jar.sha256]
    if wrong:
        for jar in wrong:
            # mvn leaves alone what is there.
            (folder / jar.path).unlink(missing_ok=True)
        # Each by itself: a dependency's dependencies are in the list already.
        _fetch(jars, ["*:*"], folder)
        verify(jars, folder)
    return ":".join(str(folder / jar.path) for jar in jars)


def verify(jars: Iterable[Jar], folder: Path) -> None:
    """Raise UnavailableError if a file is missing or is not the one that is pinned."""
    for jar in jars:
        found = _sha256(folder / jar.path)
        if found != jar.sha256:
            what = f"its SHA-256 is {found}" if found else "it is missing"
            raise UnavailableError(f"{jar.line.split()[0]} is not the pinned jar: {what}")


def pom(jars: Iterable[Jar], excluded: Sequence[str]) -> str:
    """Return a project that depends on the jars, without the excluded `group:artifact`."""
    exclusions = "".join(_EXCLUSION.format(*each.split(":")) for each in excluded)
    return _POM.format(
        dependencies="\n".join(
            _DEPENDENCY.format(
                jar=jar,
                exclusions=exclusions,
                classifier=f"\n      <classifier>{jar.classifier}</classifier>"
                if jar.classifier
                else "",
            )
            for jar in jars
        )
    )


def _fetch(jars: Iterable[Jar], excluded: Sequence[str], folder: Path) -> None:
    """Copy the jars into a folder that is laid out like a Maven repository."""
    program = shutil.which("mvn")
    if program is None:
        raise UnavailableError("mvn is not installed, which fetches jars: apt install maven")
    with tempfile.TemporaryDirectory(prefix="bendybus-jars-") as temporary:
        project = Path(temporary) / "pom.xml"
        project.write_text(pom(jars, excluded), encoding="utf-8")
        command = [program, "-B", "-q", "-f", str(project), _PLUGIN, "-DincludeScope=runtime",
                   "-Dmdep.useRepositoryLayout=true", f"-DoutputDirectory={folder}"]  # fmt: skip
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=_FETCH_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(f"mvn did not fetch its jars in {_FETCH_S:.0f} s") from error
    if done.returncode:
        raise UnavailableError(f"mvn did not fetch its jars: {_reason(done.stdout + done.stderr)}")


def _reason(output: str) -> str:
    """Return the first error of mvn, in one line."""
    found = re.search(r"\[ERROR\]\s*(.+)", output)
    return (found[1] if found else output.strip())[:_ERROR_CHARACTERS]


def _sha256(path: Path) -> str:
    """Return the hash of a file; "" if there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pin(path: Path) -> None:
    """Resolve the dependencies of a list's roots, and write the list."""
    chosen = JarList.read(path)
    with tempfile.TemporaryDirectory(prefix="bendybus-jars-") as temporary:
        folder = Path(temporary)
        _fetch([Jar.parse(root) for root in chosen.roots], chosen.excluded, folder)
        found = [_jar_at(each, folder) for each in folder.rglob("*.jar")]
    lines = [*chosen.head, *sorted(jar.line for jar in found)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _jar_at(path: Path, folder: Path) -> Jar:
    *group, artifact, version, file = path.relative_to(folder).parts
    classifier = file.removesuffix(".jar").removeprefix(f"{artifact}-{version}").lstrip("-")
    return Jar(".".join(group), artifact, version, classifier, _sha256(path))


if __name__ == "__main__":
    for each in sys.argv[1:]:
        pin(Path(each))
