"""From a pydantic model to the structural schema that Kubernetes accepts.

Structural means: no references, no alternatives with null, no titles, no closed objects (unknown
fields are pruned by the server; `bendybus` itself refuses them). The default of an object holds
the defaults of its fields: the API server evaluates CEL rules on a default as it is written.
"""

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]
_DROPPED = frozenset({"title", "$defs", "additionalProperties", "const"})


def structural(model: type[BaseModel], *, defaults: bool = True) -> Schema:
    """Return the structural schema of `model`; without `defaults` for what a controller writes."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _converted(schema, schema.get("$defs", {}), defaults)


def _converted(schema: Schema, definitions: dict[str, Schema], defaults: bool) -> Schema:
    merged = _resolved(schema, definitions)
    result = {key: value for key, value in merged.items() if key not in _DROPPED}
    if not defaults or result.get("default", ...) is None:
        result.pop("default", None)
    if result.get("type") == "integer":
        result["format"] = "int64"
    if "items" in result:
        result["items"] = _converted(result["items"], definitions, defaults)
        result.pop("default", None)
    values = merged.get("additionalProperties")
    if isinstance(values, dict):
        result["additionalProperties"] = _converted(values, definitions, defaults)
    if "properties" in result:
        result["properties"] = {
            name: _converted(value, definitions, defaults)
            for name, value in result["properties"].items()
        }
        optional = {"type": "null"} in schema.get("anyOf", [])
        if defaults and not optional and not result.get("required"):
            result["default"] = {
                name: value["default"]
                for name, value in result["properties"].items()
                if "default" in value
            }
    return _ordered(result)


def _resolved(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Return `schema` without references and without null as an alternative."""
    own = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf", "allOf")}
    for part in _parts(schema):
        own = {**_resolved(part, definitions), **own}
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        own = {**_resolved(definitions[name], definitions), **own}
    return own


def _parts(schema: Schema) -> list[Schema]:
    parts = [part for part in schema.get("anyOf", []) if part != {"type": "null"}]
    assert len(parts) <= 1, f"alternatives are not structural: {schema}"
    return parts + list(schema.get("allOf", []))


def _ordered(schema: Schema) -> Schema:
    first = ("description", "type", "format", "default", "enum", "pattern")
    head = {key: schema[key] for key in first if key in schema}
    return head | {key: value for key, value in schema.items() if key not in head}
