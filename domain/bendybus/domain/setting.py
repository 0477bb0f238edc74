"""What a setting of an entity is: type, default, and bounds by tier.

Which settings there are is the table of `entity_settings`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from bendybus.domain import durations, limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.limits import Tier


class SettingType(Enum):
    """What the values of a setting are."""

    BOOLEAN = "boolean"
    WHOLE = "whole number"
    # Milliseconds; None is without end, where `endless` says that there may be none.
    DURATION = "duration"
    # Of another entity; "" is none.
    NAME = "name"
    TEXT = "text"
    STATUS = "status"
    RULES = "rules"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a tier takes: of numbers the value, of texts the length. `one_of`: only these."""

    least: int = 0
    most: int = limits.TIME_TO_LIVE_MS_MAX
    one_of: tuple[int, ...] = ()
    # Instead of naming the bounds; {tier} is filled in.
    sentence: str = ""

    def allow(self, number: int) -> bool:
        """Whether a value is within the bounds."""
        return number in self.one_of if self.one_of else self.least <= number <= self.most


TierBounds = Mapping[Tier, Bounds]


def bounds_in(*tiers: Tier, least: int = 0, most: int = limits.TIME_TO_LIVE_MS_MAX) -> TierBounds:
    """Return the same bounds for some tiers."""
    return dict.fromkeys(tiers, Bounds(least, most))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. Its `name` is that in descriptions and in the contract, unit last."""

    name: str
    type: SettingType
    default: Any
    # What it does, in a sentence for users; `what_of`: of kinds that need another one.
    what: str
    what_of: Mapping[EntityKind, str] = field(default_factory=dict)
    kinds: tuple[EntityKind, ...] = tuple(EntityKind)
    # Cannot change after the entity was created.
    fixed: bool = False
    # By the tiers that have it.
    bounds: TierBounds = field(default_factory=lambda: bounds_in(*Tier))
    # Also of new entities, and of values that change; earlier versions took more.
    bounds_of_new: TierBounds = field(default_factory=lambda: bounds_in(*Tier))
    # A duration that may be None; `omitted`: what that means, where no tier decides otherwise.
    endless: bool = False
    omitted: str = ""
    # The version of stored entries that has it; where it is set, no earlier program may read one.
    since: int = 1
    # The default, 0, stands for a value that the tier decides.
    left_to_tier: bool = False

    @property
    def attribute(self) -> str:
        """Its name in Python models: durations are values with a unit there."""
        return self.name.removesuffix("_ms")

    @property
    def manifest_name(self) -> str:
        """Its name in manifests and error sentences."""
        first, *others = self.attribute.split("_")
        return first + "".join(map(str.capitalize, others))

    @property
    def is_text(self) -> bool:
        """Whether its values are texts whose length users choose."""
        return self.type in (SettingType.NAME, SettingType.TEXT)

    @property
    def least(self) -> int:
        """The smallest value that any tier takes; of what may be left to the tier, 1."""
        if self.left_to_tier:
            return 1
        return min(min(each.one_of, default=each.least) for each in self.bounds.values())

    @property
    def most(self) -> int:
        """The largest value, or length, that any tier takes."""
        return max(max(each.one_of, default=each.most) for each in self.bounds.values())

    def sentence(self, kind: EntityKind) -> str:
        """Return what it does to an entity of a kind."""
        return self.what_of.get(kind, self.what).format(kind=kind)

    def check(self, value: Any, tier: Tier) -> None:
        """Raise InvalidArgument for a value that no entity of a tier can have."""
        self._check(self.bounds, value, tier)

    def check_new(self, value: Any, tier: Tier) -> None:
        """Raise InvalidArgument for a value that only an entity of an earlier version can have."""
        self._check(self.bounds_of_new, value, tier)

    def from_text(self, text: str) -> int | None:
        """Return the value of a duration. Raises InvalidArgument."""
        milliseconds = durations.parse(self.manifest_name, text)
        if milliseconds is None and not self.endless:
            return limits.TIME_TO_LIVE_MS_MAX
        return milliseconds

    def _check(self, by_tier: TierBounds, value: Any, tier: Tier) -> None:
        numeric = self.type in (SettingType.WHOLE, SettingType.DURATION)
        if value == self.default and (not numeric or value is None or self.left_to_tier):
            # Not set.
            return
        bounds = by_tier.get(tier)
        if bounds is None:
            raise InvalidArgument(
                self.manifest_name,
                f"needs a namespace of tier {' or '.join(by_tier)}; this one is {tier}.",
            )
        if numeric or self.is_text:
            number = len(value) if self.is_text else value
            if not bounds.allow(number):
                raise InvalidArgument(self.manifest_name, self._refusal(bounds, number, tier))

    def _refusal(self, bounds: Bounds, number: int, tier: Tier) -> str:
        if bounds.sentence:
            return bounds.sentence.format(tier=tier)
        if bounds.one_of:
            return f"must be one of {', '.join(map(str, bounds.one_of))} (got {number})."
        if self.is_text:
            return f"must be at most {bounds.most} characters (got {number})."
        if not self.endless:
            unit = " ms" if self.type is SettingType.DURATION else ""
            return f"must be {bounds.least}{unit} to {bounds.most}{unit} (got {number}{unit})."
        if number < bounds.least:
            hint = f"; omit it for {self.omitted}" if self.omitted else ""
            return f"must be at least {durations.render(bounds.least)}{hint}."
        return f"must be at most {durations.render(bounds.most)} in the {tier} tier."
