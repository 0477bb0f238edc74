"""`make go-tests`: the live tests of azservicebus, the Go module itself, on two buses with TLS.

The module is taken as the module proxy has it. Its credentials of Microsoft Entra are replaced by
one whose token is a shared access signature; nothing else. `ARGS="-run TestAdminClient"` goes to
`go test`. What does not pass is in go_live.toml, with the reason.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from bendybus.domain import shared_access
from bendybus.domain.limits import Tier
from tests.azure_sdk import verdict
from tests.azure_sdk.live_bus import AMQPS_PORT, HTTPS_PORT
from tests.azure_sdk.verdict import Result
from tests.integration.secured import ROOT, ROOT_KEY, ROOT_POLICY, SecuredBus, policy
from tests.ports import loopback_address
from tests.sdks.programs import FOLDER

EXCEPTIONS: Final = Path(__file__).with_name("go_live.toml")
_SDK: Final = "github.com/Azure/azure-sdk-for-go/sdk"
_INTERNAL: Final = f"{_SDK}/internal"
# The packages with tests that need a service.
PACKAGES: Final = (".", "./admin", "./internal", "./internal/atom")
PARTITIONS: Final = {Tier.STANDARD: 16, Tier.PREMIUM: 1}
TESTS_S: Final = 1_500
_CREDENTIAL: Final = """\
package credential

import (
	"context"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

type NewOptions struct{}

type signature struct{}

func New(*NewOptions) (azcore.TokenCredential, error) { return signature{}, nil }

func (signature) GetToken(
	context.Context, policy.TokenRequestOptions,
) (azcore.AccessToken, error) {
	token := os.Getenv("BENDYBUS_TOKEN")
	return azcore.AccessToken{Token: token, ExpiresOn: time.Now().Add(time.Hour)}, nil
}
"""


def module(folder: Path) -> Path:
    """Copy the module, and the one with its credentials; return its folder."""
    for name, path in (("azservicebus", f"{_SDK}/messaging/azservicebus"), ("internal", _INTERNAL)):
        found = _go(["list", "-m", "-f", "{{.Dir}}", path], FOLDER / "go").strip()
        shutil.copytree(found, folder / name)
        subprocess.run(["chmod", "-R", "u+w", folder / name], check=True)
    credentials = folder / "internal" / "test" / "credential"
    for each in credentials.iterdir():
        each.unlink()
    (credentials / "credential.go").write_text(_CREDENTIAL, encoding="utf-8")
    made = folder / "azservicebus"
    _go(["mod", "edit", f"-replace={_INTERNAL}=../internal"], made)
    _go(["mod", "tidy"], made)
    return made


def _go(arguments: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        ["go", *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout


@contextmanager
def bus(folder: Path, tier: Tier) -> Iterator[tuple[SecuredBus, str]]:
    """Run a bus where the SDK looks for one; give its address, too."""
    address = loopback_address(AMQPS_PORT, HTTPS_PORT)
    policies = (
        ROOT,
        policy("no-manage", ["Send", "Listen"], ["key-of-no-manage"]),
        policy("send-only", ["Send"], ["key-of-send-only"]),
        policy("listen-only", ["Listen"], ["key-of-listen-only"]),
    )
    made = SecuredBus(
        folder,
        policies,
        addresses=("127.0.0.1", address),
        partitions=PARTITIONS[tier],
        tier=tier,
        front_end_options=(
            f"--amqps-listen={address}:{AMQPS_PORT}",
            f"--http-listen={address}:{HTTPS_PORT}",
            "--namespace-created-at=2026-01-02T03:04:05Z",
        ),
    )
    try:
        with made.administration() as administration:
            # As the template of the tests has them.
            administration.create_queue("testQueue")
            administration.create_queue("testQueueWithSessions", requires_session=True)
        yield made, address
    finally:
        made.end()


def variables(standard: tuple[SecuredBus, str], premium: tuple[SecuredBus, str]) -> dict[str, str]:
    """Return the environment of the tests."""
    (made, address), (other, other_address) = standard, premium
    ends_s = shared_access.NEVER_S

    def string(of: str, name: str, key: str) -> str:
        return f"Endpoint=sb://{of}/;SharedAccessKeyName={name};SharedAccessKey={key}"

    authorities = made.folder / "both.crt"
    authorities.write_bytes(made.bundle + b"\n" + other.bundle)
    return {
        "AZURE_RECORD_MODE": "live",
        "SSL_CERT_FILE": str(authorities),
        "SERVICEBUS_ENDPOINT": address,
        "SERVICEBUS_ENDPOINT_PREMIUM": other_address,
        "SERVICEBUS_CONNECTION_STRING": string(address, ROOT_POLICY, ROOT_KEY),
        "SERVICEBUS_CONNECTION_STRING_PREMIUM": string(other_address, ROOT_POLICY, ROOT_KEY),
        **{
            f"SERVICEBUS_CONNECTION_STRING_{name.upper().replace('-', '_')}": string(
                address, name, f"key-of-{name}"
            )
            for name in ("no-manage", "send-only", "listen-only")
        },
        # Both buses have the same key.
        "BENDYBUS_TOKEN": shared_access.sign(f"sb://{address}/", ROOT_POLICY, ROOT_KEY, ends_s),
    }


def results(lines: Iterable[Mapping[str, Any]]) -> list[Result]:
    """Return one result for each test, subtests apart."""
    outcomes = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    said: dict[str, list[str]] = {}
    found: list[Result] = []
    for line in lines:
        if "Test" not in line or "/" in line["Test"]:
            continue
        package = line["Package"].partition("azservicebus")[2].lstrip("/") or "."
        test = f"{package}::{line['Test']}"
        if line["Action"] == "output":
            said.setdefault(test, []).append(line["Output"])
        elif line["Action"] in outcomes:
            why = "".join(said.get(test, []))[-1_500:]
            found.append(Result(test, outcomes[line["Action"]], why, line.get("Elapsed", 0.0)))
    return sorted(found, key=lambda each: each.test)


def run(more: Sequence[str]) -> list[Result]:
    """Run the tests; return their results."""
    with tempfile.TemporaryDirectory(prefix="bendybus-go-tests-") as name, ExitStack() as stack:
        folder = Path(name)
        made = module(folder)
        buses = [
            stack.enter_context(bus(folder / tier.value, tier))
            for tier in (Tier.STANDARD, Tier.PREMIUM)
        ]
        done = subprocess.run(
            ["go", "test", "-json", "-count=1", f"-timeout={TESTS_S}s", *PACKAGES, *more],
            cwd=made,
            env={**os.environ, **variables(*buses)},
            stdout=subprocess.PIPE,
            check=False,
        )
    lines = (line for line in done.stdout.splitlines() if line.startswith(b"{"))
    return results(map(json.loads, lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them; return 1 if one is not as expected, 2 if none ran."""
    found = run(sys.argv[1:] if arguments is None else arguments)
    known = verdict.exceptions(tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8")))
    print(verdict.table(found, known))
    wrong = verdict.unexplained(found, known)
    for line in wrong:
        print(f"UNEXPECTED {line}", file=sys.stderr)
    return 1 if wrong else 0 if found else 2


if __name__ == "__main__":
    sys.exit(main())
