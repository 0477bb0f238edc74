"""`--set FIELD=VALUE`: the settings of a topic or a subscription, with their names in manifests."""

from collections.abc import Sequence
from typing import Any

from bendybus.cli.bus import name_values
from bendybus.cli.errors import UsageError
from bendybus.crds.bundle import NamespaceSettings
from bendybus.domain import descriptions, durations
from bendybus.domain.descriptions import AnyDescription
from bendybus.domain.entity_status import EntityStatus
from bendybus.domain.errors import BusError, InvalidArgument


def description(
    default: AnyDescription, fields: Sequence[str], namespace: NamespaceSettings
) -> AnyDescription:
    """Return the description that `FIELD=VALUE`s make of the default one. Raises UsageError."""
    fields_by_name = {
        manifest_name: field
        for field, manifest_name in descriptions.manifest_names(type(default)).items()
        # Rules are no FIELD=VALUE: they have commands of their own.
        if field != "rules"
    }
    changes: dict[str, Any] = {}
    for name, value in name_values.parse("--set", "FIELD=VALUE", fields).items():
        field = fields_by_name.get(name)
        if field is None:
            allowed = ", ".join(fields_by_name)
            raise UsageError(f"--set {name}: a {default.kind} has no such field, only {allowed}.")
        changes[field] = _value(name, value, field, getattr(default, field))
    wanted = descriptions.merged(default, changes)
    try:
        descriptions.check(wanted, tier=namespace.tier, partition_count=namespace.partition_count)
    except InvalidArgument as error:
        raise UsageError(f"--set {error.message}") from error
    except BusError as error:
        raise UsageError(error.message) from error
    return wanted


def _value(name: str, text: str, field: str, default: Any) -> Any:
    """Return the value of a field, of the type of its default."""
    try:
        if field.endswith("_ms"):
            return durations.parse(name, text)
        if isinstance(default, bool):
            return {"true": True, "false": False}[text]
        if isinstance(default, EntityStatus):
            return EntityStatus(text)
        return int(text) if isinstance(default, int) else text
    except InvalidArgument as error:
        raise UsageError(f"--set {error.message}") from error
    except (KeyError, ValueError):
        what = "true or false" if isinstance(default, bool) else "a whole number"
        if isinstance(default, EntityStatus):
            what = "one of " + ", ".join(EntityStatus)
        raise UsageError(f"--set {name}: must be {what} (got {text!r}).") from None
