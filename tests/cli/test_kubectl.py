"""What kubectl says becomes one sentence, and an exit code."""

import pytest

from bendybus.cli.bus.kubectl import Absent, Forbidden, Kubectl, UnknownKind
from bendybus.cli.errors import CliError, NotFound, Unreachable
from tests.cli.conftest import FakeKubectl

FORBIDDEN = (
    'Error from server (Forbidden): secrets "flights-rootmanagesharedaccesskey" is forbidden: User '
    '"x" cannot get resource "secrets" in API group "" in the namespace "shop"'
)


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        (
            "Error in configuration: context was not found for specified context: nope",
            NotFound,
            "kubectl knows no context 'prod'. kubectl config get-contexts",
        ),
        ('error: context "prod" does not exist', NotFound, "kubectl knows no context 'prod'"),
        ("error: current-context is not set", NotFound, "Name one with --context NAME"),
        (
            'error: the server doesn\'t have a resource type "busnamespaces"',
            UnknownKind,
            "Bendybus is not installed in the cluster of context 'prod'",
        ),
        (FORBIDDEN, Forbidden, "You may not do that in context 'prod': secrets"),
        ('Error from server (NotFound): secrets "x" not found', Absent, 'secrets "x" not found.'),
        (
            "E1121 memcache.go:265] noise\nThe connection to the server localhost:8080 was refused "
            "- did you specify the right host or port?",
            Unreachable,
            "does not answer",
        ),
        ("Unable to connect to the server: dial tcp: no such host", Unreachable, "Is it up"),
        ("error: something else", CliError, "something else."),
        ("", CliError, "without an error message"),
    ],
)
def test_what_kubectl_says_becomes_one_sentence(
    said: str, kind: type[CliError], sentence: str
) -> None:
    error = Kubectl("prod").explained(said)

    assert type(error) is kind
    assert sentence in str(error)
    assert "\n" not in str(error)


def test_context_and_namespace_are_handed_on(kubectl: FakeKubectl) -> None:
    kubectl.answers(get={"out": "{}"})

    Kubectl("prod", "shop").json("get", "queues")

    assert kubectl.calls()[0]["arguments"] == [
        "--context=prod",
        "--namespace=shop",
        "get",
        "queues",
        "--output=json",
    ]


def test_without_kubectl_the_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(CliError, match=r"kubectl is not on the PATH\. Install it, or .*--connec"):
        Kubectl().run("version")


def test_a_kubectl_that_hangs_is_given_up(kubectl: FakeKubectl) -> None:
    kubectl.answers(get={"stays_s": 30})

    with pytest.raises(Unreachable, match=r"kubectl did not answer within 0 s"):
        Kubectl().run("get", timeout_s=0.5)
