"""Atom documents: what is not well-formed, or takes long to parse, is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.domain.errors import InvalidArgument
from bendybus.frontend.listeners.web import atom


@pytest.mark.parametrize(
    "inside", ["<b/>" * 100_000, "<b>" * 70_000 + "</b>" * 70_000], ids=["wide", "deep"]
)
def test_a_body_of_many_elements_is_refused_before_all_of_it_is_read(inside: str) -> None:
    # What follows is not XML: who reads on finds that.
    body = f"<entry><content>{inside}</wrong>".encode()

    with pytest.raises(InvalidArgument, match="must have at most 4000 elements"):
        atom.described(body)


def many_attributes(name: str, count: int) -> str:
    return f"<b {' '.join(f'{name}{number}={number!r}' for number in map(str, range(count)))}/>"


@pytest.mark.parametrize(
    ("inside", "sentence"),
    [
        (many_attributes("a", 45_000), "must have no tag or comment of 8192 bytes or more"),
        (many_attributes("xmlns:a", 30_000), "must have no tag or comment of 8192 bytes or more"),
        (f"<!--{'x' * 300_000}-->", "must have no tag or comment of 8192 bytes or more"),
        (many_attributes("a", 300) * 90, "must have at most 4000 attributes"),
        ("<!---->" * 70_000, "must have at most 4000 elements"),
        ("<?a?>" * 100_000, "must have at most 4000 elements"),
        (
            f'<b xmlns="{"x" * 7_000}">{"<c/>" * 3_000}</b>',
            "must have at most 1000000 characters in names with namespaces",
        ),
        (
            f'<b xmlns:x="{"x" * 7_000}">{many_attributes("x:a", 300) * 10}</b>',
            "must have at most 1000000 characters in names with namespaces",
        ),
    ],
    ids=[
        "attributes",
        "namespaces",
        "comment",
        "attributes of many",
        "comments",
        "instructions",
        "elements in a long namespace",
        "attributes in a long namespace",
    ],
)
def test_markup_that_takes_long_is_refused_before_all_of_it_is_read(
    inside: str, sentence: str
) -> None:
    body = f"<entry><content>{inside}</wrong>"

    for encoding in ("utf-8", "utf-16"):
        with pytest.raises(InvalidArgument, match=sentence):
            atom.described(body.encode(encoding))


def test_comments_of_a_document_are_skipped() -> None:
    found = atom.described(b"<entry><!-- a --><content><?b c?><!-- d --><x>y</x></content></entry>")

    assert (atom.local(found), atom.text_of(found)) == ("x", "y")


@given(text=st.text(max_size=60))
def test_any_text_is_well_formed(text: str) -> None:
    document = atom.entry(text, text, "<x/>", author=text, created_ms=0, updated_ms=0)

    assert atom.local(atom.described(document.encode())) == "x"
