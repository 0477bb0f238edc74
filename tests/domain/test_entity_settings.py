"""The table of settings, and the descriptions of each kind that are made of it."""

from dataclasses import MISSING, fields
from typing import Any

import pytest

from bendybus.domain import entity_settings
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import SettingType

KINDS = pytest.mark.parametrize("kind", EntityKind)


@KINDS
def test_a_description_has_the_settings_of_its_kind_with_their_defaults(kind: EntityKind) -> None:
    described = {each.name: each.default for each in fields(entity_settings.TYPES[kind])}

    assert described == {
        each.name: each.default for each in entity_settings.TABLE if kind in each.kinds
    }
    assert MISSING not in described.values()


@KINDS
def test_only_a_duration_that_may_be_without_end_is_none(kind: EntityKind) -> None:
    hints: dict[str, Any] = {each.name: each.type for each in fields(entity_settings.TYPES[kind])}

    for setting in entity_settings.BY_KIND[kind]:
        assert (type(None) in getattr(hints[setting.name], "__args__", ())) == setting.endless
        assert setting.name.endswith("_ms") == (setting.type is SettingType.DURATION)


def test_names_in_manifests_are_those_of_the_service() -> None:
    names = {each.name: each.manifest_name for each in entity_settings.TABLE}

    assert len(set(names.values())) == len(names)
    assert (
        names.items()
        >= {
            "duplicate_detection_history_time_window_ms": "duplicateDetectionHistoryTimeWindow",
            "max_size_in_megabytes": "maxSizeInMegabytes",
            "requires_session": "requiresSession",
            "status": "status",
        }.items()
    )
