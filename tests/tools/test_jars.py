"""The jars of programs in a JVM: all pinned, none taken that is not the pinned one."""

import hashlib
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tools import jars
from tools.jars import Jar, JarList, UnavailableError

ROOT = Path(__file__).parents[2]
LISTS = (
    ROOT / "bench/peers/artemis.jars",
    ROOT / "bench/peers/kafka.jars",
    ROOT / "tests/sdks/java/operations.jars",
)
JAR = Jar("org.some", "thing", "1.2", sha256=hashlib.sha256(b"jar").hexdigest())


def put(folder: Path, jar: Jar, content: bytes) -> None:
    path = folder / jar.path
    path.parent.mkdir(parents=True)
    path.write_bytes(content)


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_jar_of_a_list_has_coordinates_and_a_hash(path: Path) -> None:
    found = JarList.read(path).jars

    assert found
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in found)
    assert sorted(jar.line for jar in found) == [jar.line for jar in found]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_a_list_holds_the_versions_it_is_chosen_from(path: Path) -> None:
    chosen = JarList.read(path)

    assert chosen.roots
    assert {jar.line.split()[0] for jar in chosen.jars} >= set(chosen.roots)


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_a_list_holds_nothing_that_it_is_to_be_without(path: Path) -> None:
    chosen = JarList.read(path)

    assert not {f"{jar.group}:{jar.artifact}" for jar in chosen.jars} & set(chosen.excluded)


@pytest.mark.parametrize("line", ["a.b:c:1 00", "a.b:c:1:linux 00"])
def test_a_line_is_read_as_it_is_written(line: str) -> None:
    assert Jar.parse(line).line == line


def test_a_file_lies_where_a_maven_repository_has_it() -> None:
    assert Jar.parse("a.b:c:1:linux 00").path == Path("a/b/c/1/c-1-linux.jar")
    assert JAR.path == Path("org/some/thing/1.2/thing-1.2.jar")


def test_the_pinned_file_is_taken(tmp_path: Path) -> None:
    put(tmp_path, JAR, b"jar")

    jars.verify([JAR], tmp_path)


def test_another_file_is_refused(tmp_path: Path) -> None:
    put(tmp_path, JAR, b"other")

    with pytest.raises(UnavailableError, match=r"org\.some:thing:1\.2 is not the pinned jar"):
        jars.verify([JAR], tmp_path)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="it is missing"):
        jars.verify([JAR], tmp_path)


def test_without_mvn_the_reason_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)

    with pytest.raises(UnavailableError, match="apt install maven"):
        jars.classpath(LISTS[0], tmp_path)


def test_an_error_of_mvn_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mvn = tmp_path / "mvn"
    mvn.write_text("#!/bin/sh\necho '[ERROR] no such jar'\necho '[ERROR] more'\nexit 1\n")
    mvn.chmod(0o700)
    monkeypatch.setattr(shutil, "which", lambda name: str(mvn))

    with pytest.raises(UnavailableError) as caught:
        jars.classpath(LISTS[0], tmp_path)

    assert str(caught.value) == "mvn did not fetch its jars: no such jar"


def test_a_jar_that_differs_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, JAR, b"other")
    listed = tmp_path / "some.jars"
    listed.write_text(f"# About it.\nroot org.some:thing:1.2\n{JAR.line}\n")

    def fetch(wanted: object, excluded: object, folder: Path) -> None:
        assert not (folder / JAR.path).exists()
        (folder / JAR.path).write_bytes(b"jar")

    monkeypatch.setattr(jars, "_fetch", fetch)

    assert jars.classpath(listed, tmp_path) == str(tmp_path / JAR.path)


def test_the_project_asks_for_just_the_listed_jars() -> None:
    classified = Jar.parse("a.b:c:1:linux 00")

    root = ElementTree.fromstring(jars.pom([JAR, classified], ["*:*"]))

    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    names = [each.text for each in root.findall(".//m:dependency/m:artifactId", space)]
    assert names == ["thing", "c"]
    assert [each.text for each in root.findall(".//m:classifier", space)] == ["linux"]
    assert len(root.findall(".//m:exclusion", space)) == 2
