"""`NAME=VALUE`s of an option that may be repeated."""

from collections.abc import Iterable

from bendybus.cli.errors import UsageError


def parse(option: str, form: str, texts: Iterable[str]) -> dict[str, str]:
    """Return the values by name. Raises UsageError for another form, or for two values of a name.

    `form` is what the option must be, for the error: FIELD=VALUE.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{option}: must be {form} (got {text!r}).")
        if found.setdefault(name, value) != value:
            raise UsageError(
                f"{option} {name}: contradicts itself (got {found[name]!r} and {value!r}). "
                "Leave one out."
            )
    return found
