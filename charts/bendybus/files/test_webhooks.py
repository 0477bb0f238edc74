"""Run by `helm test` in a pod, with networkPolicy.webhooksFrom: it must not reach webhooks."""

import os
import socket
import sys

WAIT_S = 5.0


def main() -> int:
    """Return 0 when this pod is refused; 1 when it is not, or when that cannot be told."""
    host, _, port = os.environ["WEBHOOKS"].rpartition(":")
    try:
        socket.getaddrinfo(host, port)
    except OSError as error:
        print(f"the name {host} cannot be resolved: {error}", flush=True)
        return 1
    try:
        with socket.create_connection((host, int(port)), timeout=WAIT_S):
            pass
    except OSError as error:
        print(f"refused, as it should be: {error}", flush=True)
        return 0
    print(
        f"a pod reaches {host}: the cluster does not enforce NetworkPolicies, or "
        "networkPolicy.webhooksFrom holds the addresses of pods.",
        flush=True,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
