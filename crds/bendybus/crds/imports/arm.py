"""A template of Azure Resource Manager → manifests of a bus, with a report. Pure.

    namespaces                        → BusNamespace; its tier is that of the SKU
    namespaces/queues, /topics        → Queue, Topic
    …/topics/subscriptions            → Subscription, with the rules below it
    …/authorizationRules              → a shared access policy: of all, or on a queue or topic

Azure's defaults hold for settings that a file lacks; a namespace that is only named is Standard.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from bendybus.crds import emulator_rules, forms, json_text
from bendybus.crds.conversion import Conversion, Outcome, Reason
from bendybus.crds.errors import ManifestError
from bendybus.crds.field_reader import Field, FieldReader
from bendybus.crds.forms import Form
from bendybus.crds.imports import arm_policies, arm_template, time_spans
from bendybus.crds.imports.arm_template import Resource
from bendybus.crds.imports.asked import Asked
from bendybus.crds.imports.importer import Conventions, Importer, first, whole
from bendybus.domain import limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters import rule
from bendybus.domain.limits import Tier

_KINDS: Final[Mapping[tuple[str, ...], EntityKind]] = MappingProxyType(
    {
        ("namespaces", "queues"): EntityKind.QUEUE,
        ("namespaces", "topics"): EntityKind.TOPIC,
        ("namespaces", "topics", "subscriptions"): EntityKind.SUBSCRIPTION,
    }
)
# A filter that is never true.
_NEVER: Final = "1=0"
_RULES: Final = ("namespaces", "topics", "subscriptions", "rules")


def parse(source: str, data: bytes, given: Mapping[str, Any]) -> Conversion:
    """Return the manifests of a file. Raises ManifestError with every problem.

    `given`: values of parameters, and of what only Azure knows, by name.
    """
    return convert(source, json_text.parse(source, data), Asked(given))


def convert(source: str, document: Mapping[str, Any], asked: Asked) -> Conversion:
    """Return the manifests of a parsed template. Raises ManifestError with every problem."""
    return of_resources(
        source, Form.ARM, asked, lambda reader: arm_template.read(reader, document, asked)
    )


def of_resources(
    source: str, form: Form, asked: Asked, read: Callable[[FieldReader], list[Resource]]
) -> Conversion:
    """Return the manifests of resources that are read. Raises ManifestError with every problem."""
    return _Converter(source, form, asked).convert(read)


class _Converter:
    """One conversion."""

    def __init__(self, source: str, form: Form, asked: Asked) -> None:
        entities = forms.idle(forms.IDLE_OF_ENTITIES, form)
        self._idle = forms.idle(forms.IDLE_OF_NAMESPACES, form)
        self._usual = forms.usual(forms.IDLE_OF_NAMESPACES, form)
        conventions = Conventions(
            form, "name", "properties", entities, texts=True, partitioning=True
        )
        self._importer = Importer(source, conventions)
        self._reader = self._importer.reader
        self._asked = asked
        self._form = form

    def convert(self, read: Callable[[FieldReader], list[Resource]]) -> Conversion:
        """Return the conversion. Raises ManifestError with every problem."""
        found = read(self._reader)
        if self._reader.problems:
            # Further problems may follow from these.
            raise ManifestError(*first(self._reader.problems))
        name, found = self._chosen(found)
        self._check_twice(found)
        self._namespace(name, found)
        self._entities(found)
        return self._importer.conversion()

    def _chosen(self, found: list[Resource]) -> tuple[str, list[Resource]]:
        """Return the namespace that is meant, and what is in it. Raises ManifestError."""
        names = {each.names[0].lower(): each.names[0] for each in found if each.types}
        only, shown = self._asked.only.lower(), ", ".join(names.values())
        if not names:
            self._reader.problem("", "has no resource of Service Bus.")
        elif only and only not in names:
            self._reader.problem(
                "", f"has no namespace {self._asked.only!r} (--only). It has {shown:.1000}."
            )
        elif not only and len(names) > 1:
            other = next(each for each in found if each.names[0].lower() == [*names][1])
            self._reader.problem(
                other.place,
                f"is of a second namespace. The file has {shown:.1000}, and a bus is one: choose "
                "it with --only NAME.",
            )
        if self._reader.problems:
            raise ManifestError(*first(self._reader.problems))
        chosen = only or next(iter(names))
        mine = [each for each in found if each.names[0].lower() == chosen]
        for each in found:
            if each.names[0].lower() != chosen:
                self._reader.left_out(
                    each.place, Reason(f"is of namespace {each.names[0]}.", Outcome.NO_EFFECT)
                )
        return names[chosen], mine

    def _check_twice(self, found: list[Resource]) -> None:
        """Note a problem for each resource that is there twice."""
        seen: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}
        for each in found:
            other = seen.setdefault((each.types, _key(each.names)), each.place)
            if other != each.place and each.types[-1] in (
                arm_policies.TYPE,
                arm_template.NAMESPACES,
            ):
                self._reader.problem(each.place, f"is the same as {other}. Remove one of them.")

    def _namespace(self, name: str, found: Sequence[Resource]) -> None:
        own = next((each for each in found if each.types == (arm_template.NAMESPACES,)), None)
        policies = arm_policies.read(self._reader, found, self._importer.policies)
        spec: dict[str, Any] = {"sku": {"tier": self._importer.tier.value}}
        path = "resources"
        if (own is None or own.existing) and self._asked.running is not None:
            running = self._asked.running()
            name, spec = running.name, self._spec(running.tier, running.partition_count)
        elif own is not None:
            path = own.place
            spec = self._sku(own)
            if self._asked.premium is not None:
                self._reader.problem(
                    path, "says itself how many partitions it has. Leave --premium out."
                )
        else:
            spec = self._of_named(found)
        if policies:
            spec["authorizationRules"] = policies
        place = json_text.step(path, "name")
        self._importer.namespace(path, (place, name) if own is not None else None, name, spec)

    def _spec(self, tier: Tier, count: int) -> dict[str, Any]:
        """Return the spec of a bus that the file does not describe."""
        self._importer.tier, self._importer.partition_count = tier, count
        spec: dict[str, Any] = {"sku": {"tier": tier.value}}
        return spec | ({"premiumMessagingPartitions": count} if tier is Tier.PREMIUM else {})

    def _of_named(self, found: Sequence[Resource]) -> dict[str, Any]:
        """Return the spec of a namespace that the file only names: it is Standard.

        Its entities may say that it is Premium: other tiers have no larger messages.
        """
        if self._asked.premium is not None:
            return self._spec(Tier.PREMIUM, self._asked.premium)
        for each in found:
            field = each.fields.get("properties")
            size = self._message_kb(*field) if field and each.types in _KINDS else None
            if size is not None:
                self._reader.default(
                    "sku",
                    f"Premium with 1 partition, since {size} is too large for Standard. For more "
                    "partitions use --premium.",
                )
                return self._spec(Tier.PREMIUM, 1)
        what = "Standard, since the file only names the namespace. For a Premium one use --premium."
        self._reader.default("sku", what)
        return self._spec(Tier.STANDARD, limits.STANDARD_PARTITION_COUNT)

    def _message_kb(self, place: str, properties: Any) -> str | None:
        """Return the place of a size of messages that only Premium has."""
        names = forms.BY_SETTING["max_message_size_in_kilobytes"].names(self._form)
        most = limits.message_bytes_default(Tier.STANDARD) // limits.KB
        for name, value in properties.items() if isinstance(properties, dict) else ():
            text = str(value)
            if name.lower() in map(str.lower, names) and text.isdecimal() and int(text) > most:
                return self._reader.place(json_text.step(place, name))
        return None

    def _sku(self, own: Resource) -> dict[str, Any]:
        """Return tier and partitions of the bus."""
        importer, reader = self._importer, self._reader
        idle = {"capacity": forms.CAPACITY, "family": forms.CAPACITY}
        sku: dict[str, Field] = {}
        if "sku" in own.fields:
            sku = reader.fields(*own.fields["sku"], ("tier", "name"), idle=idle)
        for place, given in sku.values():
            tier = {each.value.lower(): each for each in Tier}.get(str(given).lower())
            if tier is None:
                reader.problem(place, f"must be one of {', '.join(Tier)} (got {given!r:.60}).")
                continue
            importer.tier = tier
            reader.taken(place)
        made: dict[str, Any] = {"sku": {"tier": importer.tier.value}}
        field = own.fields.get("properties")
        known = ("premiumMessagingPartitions",)
        properties = {}
        if field is not None:
            properties = reader.fields(*field, known, idle=self._idle, usual=self._usual)
        importer.partition_count = limits.STANDARD_PARTITION_COUNT
        if importer.tier is Tier.PREMIUM:
            importer.partition_count = 1
        if known[0] in properties:
            place, count = properties[known[0]]
            count = int(count) if isinstance(count, str) and count.isdecimal() else whole(count)
            if importer.tier is not Tier.PREMIUM and count == 0:
                reader.taken(place, "is 0: the tier decides.")
            elif importer.tier is Tier.PREMIUM and count in limits.PREMIUM_PARTITION_COUNTS:
                reader.taken(place)
                importer.partition_count = count
            else:
                reader.problem(place, f"is no number of partitions in tier {importer.tier}.")
        if importer.tier is Tier.PREMIUM:
            made["premiumMessagingPartitions"] = importer.partition_count
        return made

    def _entities(self, found: Sequence[Resource]) -> None:
        topics: dict[str, bool] = {}
        rules: dict[tuple[str, ...], list[Resource]] = {}
        for each in found:
            if each.types == _RULES:
                rules.setdefault(_key(each.names[:-1]), []).append(each)
        # Topics first: whether one is partitioned decides which actions rules may have.
        for each in sorted(found, key=lambda one: one.types != ("namespaces", "topics")):
            kind = _KINDS.get(each.types)
            if kind is not None:
                field = each.fields.get("properties")
                if field is not None:
                    field = field[0], time_spans.in_iso(field[1])
                settings = self._importer.settings(kind, each.place, field)
                if kind is EntityKind.TOPIC:
                    topics[each.names[1].lower()] = bool(settings.get("enablePartitioning"))
                partitioned = topics.get(each.names[1].lower(), False)
                own = self._rules(rules.pop(_key(each.names), ()), partitioned=partitioned)
                if kind is EntityKind.SUBSCRIPTION and not own and self._form is Form.AZ:
                    self._reader.default(
                        json_text.step("/".join(each.names[1:]), "rules"),
                        "$Default, which takes every message, since the file has none. Add what az "
                        "servicebus topic subscription rule list prints.",
                    )
                topic = each.names[1] if kind is EntityKind.SUBSCRIPTION else ""
                self._importer.entity(kind, each.place, each.names[-1], settings, topic, own)
            elif each.types[-1] in forms.OTHER_RESOURCES:
                self._reader.left_out(each.place, forms.OTHER_RESOURCES[each.types[-1]])
            elif each.types not in (_RULES, (arm_template.NAMESPACES,)) and (
                each.types[-1] != arm_policies.TYPE
            ):
                self._reader.not_supported(each.place, "is not known here.")
            if kind is EntityKind.SUBSCRIPTION and each.names[1].lower() not in topics:
                self._reader.changed(
                    each.place, f"needs topic {each.names[1]!r:.300}, which this file lacks."
                )
        for [each, *_] in rules.values():
            _, topic, subscription, *_ = each.names
            self._reader.problem(
                each.place,
                f"is a rule of subscription {subscription!r:.60} of topic {topic!r:.300}, which "
                "the file lacks. Add the subscription to the file.",
            )

    def _rules(self, found: Sequence[Resource], *, partitioned: bool) -> list[dict[str, Any]]:
        names: dict[str, str] = {}
        made = []
        for each in found:
            at, properties = each.fields.get("properties", (each.place, {}))
            properties = self._with_type(json_text.step(each.place, "properties"), at, properties)
            value = {"name": each.names[-1], "properties": properties}
            made.append(
                emulator_rules.read_one(
                    self._reader, each.place, value, partitioned, names, self._form
                )
            )
        return self._beside_default(found, [each for each in made if each])

    def _beside_default(
        self, found: Sequence[Resource], made: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return rules as they are here: Azure makes $Default beside those of a file.

        A template that does not want it writes over it with a filter that takes no message.
        """
        by_name = {each.names[-1].lower(): each.place for each in found}
        default = rule.DEFAULT_NAME.lower()
        if made and default not in by_name and self._form is not Form.AZ:
            subscription = "/".join(found[0].names[1:-1])
            self._reader.default(
                json_text.step(subscription, "rules"),
                "only those of the file; Azure may keep $Default, which takes every message.",
            )
        kept = [each for each in made if not _takes_nothing(each)]
        if len(kept) == len(made) or not kept:
            return made
        self._reader.taken(by_name[default], "keeps away the one that Azure makes.")
        return kept

    def _with_type(self, path: str, at: str, properties: Any) -> Any:
        """Return the properties of a rule with the type of its filter, as the emulator's have it.

        Templates call it SqlFilter or CorrelationFilter, or leave it out; old ones write `filter`.
        """
        if not isinstance(properties, dict):
            return properties
        made: dict[str, Any] = {}
        for name, value in properties.items():
            if value is None:
                continue
            lower = "sqlfilter" if name.lower() == "filter" else name.lower()
            place = json_text.step(at, name)
            if lower in made:
                self._reader.problem(place, "is there twice. Remove one of them.")
            made[lower] = value
            own = "FilterType" if lower == "filtertype" else lower
            self._reader.written[json_text.step(path, own)] = place
        given = made.pop("filtertype", None)
        kind = given.lower().removesuffix("filter") if isinstance(given, str) else given
        if kind is None:
            kind = "correlation" if "correlationfilter" in made else "sql"
        if kind == "sql" and "sqlfilter" not in made:
            # As in Azure: every message.
            made["sqlfilter"] = {"sqlExpression": "1=1"}
        return {"FilterType": kind.capitalize() if isinstance(kind, str) else kind} | made


def _takes_nothing(given: Mapping[str, Any]) -> bool:
    """Whether a rule of a manifest is $Default with a filter that is never true."""
    expression = given.get("sqlFilter", {}).get("sqlExpression", "")
    is_default = str(given["name"]).lower() == rule.DEFAULT_NAME.lower()
    return is_default and "action" not in given and "".join(expression.split()) == _NEVER


def _key(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(each.lower() for each in names)
