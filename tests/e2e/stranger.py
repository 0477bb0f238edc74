"""Runs in a pod without credentials: calls the operator's webhooks as if it were the API server.

Usage: stranger.py HOST flood [--threads N] [--rules N]   until /tmp/stop appears
       stranger.py HOST ask                               reviews in JSON from stdin, one a line
Prints one JSON object a review that is asked; with `flood` one with the figures.
"""

import argparse
import collections
import http.client
import json
import os
import ssl
import sys
import threading
import time
import uuid
from typing import Any

STOP = "/tmp/stop"
FIGURES = "/tmp/flood.json"
PATHS = {"Queue": "/queues", "Subscription": "/subscriptions", "BusNamespace": "/busnamespaces"}
# Long, and with all that is dear to compile.
CONDITION = " OR ".join(
    f"(user.p{n} LIKE '%a_b%{n}%' AND NOT user.q{n} IN ({n}, 'x'))" for n in range(12)
)


def review(operation: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a request for an admission, as the API server would send it."""
    metadata = body["metadata"]
    shown, other = ("oldObject", "object") if operation == "DELETE" else ("object", "oldObject")
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": "bendybus.io", "version": "v1alpha1", "kind": body["kind"]},
        "resource": {
            "group": "bendybus.io",
            "version": "v1alpha1",
            "resource": PATHS[body["kind"]][1:],
        },
        "userInfo": {"username": "nobody", "uid": "", "groups": []},
        "operation": operation,
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "dryRun": False,
        shown: body,
        other: None,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def send(host: str, operation: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send a review; return the answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, 443, timeout=30, context=context)
    try:
        text = json.dumps(review(operation, body))
        headers = {"Content-Type": "application/json"}
        connection.request("POST", PATHS[body["kind"]], text, headers)
        answer = connection.getresponse()
        said = answer.read().decode()
    finally:
        connection.close()
    found: dict[str, Any] = json.loads(said).get("response") if answer.status == 200 else {}
    return {"http": answer.status, "allowed": found.get("allowed"), "status": found.get("status")}


def subscription(rules: int) -> dict[str, Any]:
    """Return a manifest with rules that no review has seen before."""
    name = f"s{uuid.uuid4().hex[:12]}"
    texts = [f"{CONDITION} OR user.own = '{name}-{n}'" for n in range(rules)]
    return {
        "apiVersion": "bendybus.io/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": name, "namespace": "default", "uid": str(uuid.uuid4())},
        "spec": {
            "namespaceRef": {"name": "bus"},
            "topicName": "sales",
            "rules": [
                {"name": f"r{n}", "sqlFilter": {"sqlExpression": text}}
                for n, text in enumerate(texts)
            ],
        },
    }


def flood(host: str, threads: int, rules: int) -> None:
    """Send reviews, so many at a time, until told to stop."""
    told: collections.Counter[str] = collections.Counter()
    slowest_s = 0.0

    def work() -> None:
        nonlocal slowest_s
        body = subscription(rules)
        while not os.path.exists(STOP):
            began_s = time.monotonic()
            try:
                answer = send(host, "CREATE", body)
                told[f"{answer['http']} {answer['allowed']}"] += 1
            except Exception as error:
                told[type(error).__name__] += 1
            slowest_s = max(slowest_s, time.monotonic() - began_s)
            with open(f"{FIGURES}.{threading.get_ident()}", "w", encoding="utf-8") as file:
                json.dump({"told": told, "slowest_s": slowest_s}, file)
            os.replace(file.name, FIGURES)

    started = [threading.Thread(target=work) for _ in range(threads)]
    for each in started:
        each.start()
    for each in started:
        each.join()
    print(json.dumps({"told": told, "slowest_s": round(slowest_s, 2)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("what", choices=["flood", "ask"])
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rules", type=int, default=200)
    options = parser.parse_args()
    if options.what == "flood":
        flood(options.host, options.threads, options.rules)
        return
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(send(options.host, asked["operation"], asked["body"])), flush=True)


if __name__ == "__main__":
    main()
