"""`--set FIELD=VALUE`: the settings of an entity, with their names in manifests."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from bendybus.cli.errors import UsageError
from bendybus.crds import suggestions
from bendybus.crds.bundle import NamespaceSettings
from bendybus.domain import descriptions, entity, entity_settings
from bendybus.domain.descriptions import AnyDescription
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import EntityStatus, Setting, SettingType
from bendybus.domain.errors import BusError, InvalidArgument

_WHOLE: Final = re.compile(r"-?[0-9]+")


def _whole(text: str) -> int:
    # Stricter than int(), which takes 1_000 and digits of all scripts.
    if not _WHOLE.fullmatch(text):
        raise ValueError
    return int(text)


# How a value is read, and what it must be.
_READERS: Final[Mapping[SettingType, tuple[Callable[[str], Any], str]]] = {
    SettingType.BOOLEAN: ({"true": True, "false": False}.__getitem__, "true or false"),
    SettingType.WHOLE: (_whole, "a whole number"),
    SettingType.STATUS: (EntityStatus, " or ".join(", ".join(EntityStatus).rsplit(", ", 1))),
}


def description(
    default: AnyDescription, fields: Sequence[str], namespace: NamespaceSettings
) -> AnyDescription:
    """Return the description that `FIELD=VALUE`s make of another one. Raises UsageError."""
    wanted = descriptions.merged(default, changes(default.kind, fields))
    try:
        descriptions.check(wanted, tier=namespace.tier, partition_count=namespace.partition_count)
    except InvalidArgument as error:
        raise UsageError(f"--set {error.message}") from error
    except BusError as error:
        raise UsageError(error.message) from error
    return wanted


def changes(kind: EntityKind, fields: Sequence[str]) -> dict[str, Any]:
    """Return the values of `FIELD=VALUE`s, by the names of descriptions. Raises UsageError."""
    settings = {
        each.manifest_name: each
        for each in entity_settings.BY_KIND[kind]
        # Rules are no FIELD=VALUE.
        if not each.is_list
    }
    found: dict[str, Any] = {}
    for name, value in by_name("--set", "FIELD=VALUE", fields).items():
        if name not in settings:
            hint = suggestions.did_you_mean(name, settings)
            raise UsageError(f"--set {name}: a {kind} has no such field.{hint}")
        found[settings[name].name] = _value(settings[name], value)
    return found


def check_name(name: str) -> None:
    """Raise UsageError for what cannot be the name of a new queue."""
    try:
        entity.check_new_name(name)
    except InvalidArgument as error:
        sentence = error.message.removeprefix(f"{error.field}: ")
        raise UsageError(f"Name of the queue: {sentence}") from error


def _value(setting: Setting, text: str) -> Any:
    """Return the value that a text is."""
    read, what = _READERS.get(setting.type, (str, ""))
    try:
        duration = setting.type is SettingType.DURATION
        value: Any = setting.from_text(text) if duration else read(text)
        if setting.left_to_tier and value < setting.least:
            # The default, which leaves it to the tier, is no value that can be given.
            raise InvalidArgument(
                setting.manifest_name, f"must be at least {setting.least} (got {value})."
            )
        return value
    except InvalidArgument as error:
        raise UsageError(f"--set {error.message}") from error
    except (KeyError, ValueError):
        raise UsageError(f"--set {setting.manifest_name}: must be {what} (got {text!r}).") from None


def by_name(option: str, form: str, texts: Iterable[str]) -> dict[str, str]:
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
