"""Where metrics listen: they name entities and count their messages."""

from pathlib import Path
from typing import Any

import pytest

from bendybus.frontend import __main__ as front_end
from bendybus.frontend import server
from bendybus.partition_server import arguments
from bendybus.wire import event_loop, serving

POD = {serving.IN_A_POD: "10.96.0.1"}


@pytest.mark.requirement("R390")
@pytest.mark.parametrize(
    ("given", "listen", "env", "host"),
    [
        ("", "127.0.0.1:7480", {}, "127.0.0.1"),
        ("", "[::1]:7480", {}, "[::1]"),
        ("", "0.0.0.0:7480", {}, "127.0.0.1"),
        ("", "bus.example:7480", {}, "127.0.0.1"),
        ("", "0.0.0.0:7480", POD, "0.0.0.0"),
        ("0.0.0.0", "0.0.0.0:7480", {}, "0.0.0.0"),
        ("127.0.0.1", "0.0.0.0:7480", POD, "127.0.0.1"),
    ],
)
def test_metrics_listen_beyond_loopback_only_where_somebody_says_who_reads_them(
    given: str, listen: str, env: dict[str, str], host: str
) -> None:
    assert serving.metrics_host(given, listen, env) == host


@pytest.mark.requirement("R390")
@pytest.mark.parametrize("env", [{}, POD])
def test_a_partition_server_shows_its_metrics_to_no_more(
    env: dict[str, str], tmp_path: Path
) -> None:
    options = ["serve", "--data", str(tmp_path), "--namespace-uid", "u", "--partitions", "0"]
    options += ["--listen", "0.0.0.0:7490"]

    given = arguments.settings(arguments.parser().parse_args(options), env)
    opened = [*options, "--metrics-host", "10.0.0.1"]

    assert given.metrics_host == ("0.0.0.0" if env else "127.0.0.1")
    chosen = arguments.settings(arguments.parser().parse_args(opened), env)
    assert chosen.metrics_host == "10.0.0.1"


@pytest.mark.requirement("R390")
def test_a_front_end_shows_its_metrics_to_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.delenv(serving.IN_A_POD, raising=False)
    monkeypatch.setattr("sys.argv", ["x", "serve", "--listen", "0.0.0.0:1", "--partition", "0=a:1"])
    monkeypatch.setattr(serving, "configure_logging", lambda _: None)
    monkeypatch.setattr(serving, "freeze_imports", lambda: None)
    monkeypatch.setattr(serving, "run_until_signal", lambda serve: serve(None))
    monkeypatch.setattr(server, "serve", lambda settings, _: served.append(settings))
    monkeypatch.setattr(event_loop, "run", lambda _: None)

    assert front_end.main() == 0

    assert served[0].metrics_host == "127.0.0.1"
