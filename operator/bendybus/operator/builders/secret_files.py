"""The Secrets of a bus: certificates, policies for front ends, keys for applications."""

import base64
import json
from collections.abc import Mapping, Sequence

from bendybus.operator.builders import frontend, partitions
from bendybus.operator.builders.context import Context, Manifest, metadata
from bendybus.operator.decisions.access_keys import Policy
from bendybus.operator.kubernetes import names


def encoded(values: Mapping[str, str]) -> dict[str, str]:
    """Return the data of a Secret of text files."""
    return {name: base64.b64encode(text.encode()).decode() for name, text in values.items()}


def tls(context: Context, role: str, files: Mapping[str, str]) -> Manifest:
    """Return the Secret with a role's tls.crt, tls.key and ca.crt."""
    secret = {
        partitions.ROLE: names.partition_tls(context.bus),
        frontend.ROLE: names.frontend_tls(context.bus),
    }[role]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(context, secret, role),
        "type": "kubernetes.io/tls",
        "data": encoded(files),
    }


def trust(context: Context, files: Mapping[str, str]) -> Manifest:
    """Return the Secret with what each role trusts while cert-manager issues certificates."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(context, names.trust(context.bus)),
        "type": "Opaque",
        "data": encoded(files),
    }


def policies(context: Context, known: Sequence[Policy]) -> Manifest:
    """Return the Secret that front ends read every policy and key from."""
    document = {
        "policies": [
            {
                "name": policy.name,
                "rights": list(policy.rights),
                "entity": policy.entity,
                "keys": [policy.primary_key, policy.secondary_key],
            }
            for policy in known
        ]
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(context, names.policies(context.bus), frontend.ROLE),
        "type": "Opaque",
        "data": encoded({"policies.json": json.dumps(document, indent=1)}),
    }


def access(context: Context, policy: Policy, trust: str) -> Manifest:
    """Return the Secret of one policy, named and filled as Service Bus users know it.

    It outlives the BusNamespace where the data does: applications keep their connection strings.
    """
    host = f"{names.frontend_host(context.bus)}:{names.FRONTEND_PORT}"
    name = names.access_secret(context.bus, policy.name)
    values = {
        "primaryKey": policy.primary_key,
        "secondaryKey": policy.secondary_key,
        "primaryConnectionString": connection_string(host, policy, policy.primary_key),
        "secondaryConnectionString": connection_string(host, policy, policy.secondary_key),
        "endpoint": f"sb://{host}",
        "ca.crt": trust,
    }
    made = metadata(context, name, "access", owned=not context.keeps_data)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": made,
        "type": "Opaque",
        "data": encoded({key: value for key, value in values.items() if value}),
    }


def connection_string(host: str, policy: Policy, key: str) -> str:
    """Return the connection string for one key of a policy."""
    text = f"Endpoint=sb://{host};SharedAccessKeyName={policy.name};SharedAccessKey={key}"
    return f"{text};EntityPath={policy.entity}" if policy.entity else text
