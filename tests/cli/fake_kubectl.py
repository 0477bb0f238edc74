"""`python tests/cli/fake_kubectl.py ARGUMENTS`: kubectl as tests want it, told by a JSON file.

FAKE_KUBECTL names a folder. `answers.json` maps what the arguments begin with (options left out)
to {"out", "err", "code"}; a list of answers is given one by one, the last one for ever. Calls are
added to `calls`. `port-forward` opens nothing: the port it says is one that a test listens on.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def main() -> int:
    folder = Path(os.environ["FAKE_KUBECTL"])
    with (folder / "calls").open("a", encoding="utf-8") as calls:
        calls.write(json.dumps({"arguments": sys.argv[1:], "pid": os.getpid()}) + "\n")
    words = " ".join(each for each in sys.argv[1:] if not each.startswith("-"))
    answers = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    answer: Any = next((answers[key] for key in answers if words.startswith(key)), None)
    if isinstance(answer, list):
        used = folder / f"used-{len(words)}"
        number = len(used.read_text()) if used.exists() else 0
        used.write_text("." * (number + 1))
        answer = answer[min(number, len(answer) - 1)]
    if answer is None:
        print(f"error: the fake knows no {words!r}", file=sys.stderr)
        return 1
    sys.stdout.write(answer.get("out", ""))
    sys.stderr.write(answer.get("err", ""))
    sys.stdout.flush()
    if "stays_s" in answer:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        time.sleep(answer["stays_s"])
    return int(answer.get("code", 0))


if __name__ == "__main__":
    sys.exit(main())
