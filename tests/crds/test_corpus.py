"""Files of the shape of public ones are converted, or refused with the field that is wrong."""

import pytest

from bendybus.cli.bus import imports
from bendybus.crds.conversion import Conversion
from bendybus.crds.errors import ManifestError
from bendybus.crds.forms import Form
from bendybus.crds.imports.asked import Asked
from tests.crds import public_files
from tests.crds.public_files import CORPUS, INDEX, PublicFile
from tests.crds.reports import reported

pytestmark = pytest.mark.requirement("R657")
FILES = public_files.read()
CONVERTED = [each for each in FILES if not each.refused]
REFUSED = [each for each in FILES if each.refused]


def name_of(file: PublicFile) -> str:
    return file.file


def converted(file: PublicFile, form: Form | None) -> Conversion:
    """Return the conversion; `form`: None lets the file be recognised."""
    return imports.read(CORPUS / file.file, form, Asked(file.given))


@pytest.mark.parametrize("file", CONVERTED, ids=name_of)
def test_a_file_of_the_shape_of_a_public_one_is_converted(file: PublicFile) -> None:
    found = converted(file, Form(file.form))

    manifests = {
        f"{each['kind']} {each['metadata']['name']}": {
            name: value for name, value in each["spec"].items() if name != "namespaceRef"
        }
        for each in found.documents
    }
    assert manifests == file.manifests
    assert set(file.reported) <= {each.path for each in reported(found)}
    assert converted(file, None).documents == found.documents


@pytest.mark.parametrize("file", REFUSED, ids=name_of)
def test_a_file_of_the_shape_of_a_public_one_is_refused_with_its_field(file: PublicFile) -> None:
    assert not file.manifests
    for form in (Form(file.form), None):
        with pytest.raises(ManifestError) as error:
            converted(file, form)

        said = {each.field: each.sentence for each in error.value.problems}
        assert said.keys() == file.refused.keys()
        assert [field for field, words in file.refused.items() if words not in said[field]] == []


def test_every_file_of_the_folder_is_in_the_index_once() -> None:
    inputs = sorted(each.name for each in CORPUS.iterdir() if each.name != INDEX)

    assert sorted(each.file for each in FILES) == inputs


def test_at_least_thirty_public_files_are_named_once_each() -> None:
    sources = {each.source for each in FILES}

    assert len(sources) == len(FILES)
    assert len(sources) >= 30
    assert all(each.partition(":")[2] and "/" in each.partition(":")[0] for each in sources)
