"""What the operator asks of images of the version before its own, which a bus may pin."""

import dataclasses

import pytest

from bendybus.frontend import __main__ as frontend_command
from tests.operator.manifests import context
from tests.operator.test_builders import pods


def test_front_ends_of_the_last_version_understand_their_arguments() -> None:
    """A bus may pin an image of the version before the operator's."""
    (container,) = pods(context())[1]["containers"]

    options = {each.partition("=")[0] for each in container["args"]}

    assert options == {
        *("--listen", "--health-listen", "--metrics-port", "--tls-directory", "--bus-identity"),
        *("--access-policies", "--max-connection-age-s", "--drain-s", "--partition"),
    }


def test_front_ends_are_told_by_variables_where_to_listen_for_amqp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (container,) = pods(context())[1]["containers"]
    for each in container["env"]:
        monkeypatch.setenv(each["name"], each["value"])

    options = frontend_command._parser().parse_args(["serve", "--partition=0=a:1"])

    assert (options.amqps_listen, options.http_listen) == ("0.0.0.0:5671", "0.0.0.0:8443")
    assert not options.amqp_idle_limits


@pytest.mark.requirement("R575")
def test_front_ends_are_told_by_a_variable_when_the_namespace_was_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = dataclasses.replace(context(), created_at="2026-01-31T12:00:00Z")
    (container,) = pods(of)[1]["containers"]
    for each in container["env"]:
        monkeypatch.setenv(each["name"], each["value"])

    options = frontend_command._parser().parse_args(["serve", "--partition=0=a:1"])

    assert options.namespace_created_ms == 1_769_860_800_000


@pytest.mark.parametrize("wrong", ["yesterday", "2026-01-31T12:00:00", "2026-13-01T00:00:00Z"])
def test_a_time_that_is_none_is_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        frontend_command._parser().parse_args(["serve", f"--namespace-created-at={wrong}"])

    assert f"must be a time with its zone, such as 2026-01-31T12:00:00Z (got {wrong!r})" in (
        capsys.readouterr().err
    )


def test_front_ends_are_told_by_a_variable_that_idle_links_are_detached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (container,) = pods(context(frontend={"amqpIdleLimits": True}))[1]["containers"]
    for each in container["env"]:
        monkeypatch.setenv(each["name"], each["value"])

    assert frontend_command._parser().parse_args(["serve"]).amqp_idle_limits
