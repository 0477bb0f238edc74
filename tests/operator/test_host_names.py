"""The names that clients reach a bus by."""

import pytest

from bendybus.operator.builders import certificates, children
from bendybus.operator.builders.context import Context
from bendybus.operator.kubernetes import names
from tests.operator.manifests import context
from tests.operator.test_builders import HOST_NAMES, find


@pytest.mark.requirement("R499")
def test_front_ends_compare_the_hosts_of_tokens_only_where_the_manifest_lists_host_names() -> None:
    def told(of: Context) -> list[str]:
        made = find(children.all_of(of), "Deployment", names.frontend(of.bus))
        (container,) = made["spec"]["template"]["spec"]["containers"]
        return [each["value"] for each in container["env"] if each["name"] == HOST_NAMES]

    listed = context(frontend={"hostNames": ["bus.example.com", "x.svc"]})

    assert told(context()) == []
    (found,) = told(listed)
    (_, certificate) = certificates.wanted(listed)
    # Every name that its certificate is good for, and no other.
    assert found.split(",") == [*certificate.dns_names, *certificate.ip_addresses]
    assert {"bus.example.com", names.frontend(listed.bus)} <= set(found.split(","))
