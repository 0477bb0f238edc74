"""Times as old interfaces and old versions of `az` write them → ISO 8601. Pure.

14.00:00:00           templates for the interface of 2015, as .NET writes a time
14 days, 0:00:00      old versions of `az`, as Python writes one
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from bendybus.domain import durations, entity_settings
from bendybus.domain.entity_settings import SettingType

_SPAN: Final = re.compile(
    r"(?:(\d{1,8})(?:\.| days?, ))?(\d{1,2}):(\d{2}):(\d{2})(\.\d{1,7})?", re.ASCII
)
_NAMES: Final = frozenset(
    each.atom_name.lower() for each in entity_settings.TABLE if each.type is SettingType.DURATION
)


def in_iso(properties: Any) -> Any:
    """Return the properties of an entity with all their durations in ISO 8601."""
    if not isinstance(properties, Mapping):
        return properties
    return {
        name: _iso(value) if name.lower() in _NAMES and isinstance(value, str) else value
        for name, value in properties.items()
    }


def _iso(text: str) -> str:
    found = _SPAN.fullmatch(text)
    if found is None:
        return text
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[:4])
    whole_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return durations.render(durations.bounded(round((whole_s + float(found[5] or 0)) * 1_000)))
