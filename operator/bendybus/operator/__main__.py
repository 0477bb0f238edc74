"""`python -m bendybus.operator`: the operator's process."""

import asyncio
import logging
import os
import sys

from bendybus.operator.controllers.process import run
from bendybus.operator.settings import Settings
from bendybus.wire import serving


def quieten() -> None:
    """Suppress log lines for handled events, probes and rejections (which are counted)."""
    kopf_objects = logging.getLogger("kopf.objects")
    kopf_objects.setLevel(logging.WARNING)
    kopf_objects.addFilter(lambda record: not record.getMessage().startswith("Handler 'admit_"))
    for name in ("aiohttp.access", "kopf.activities.probe"):
        logging.getLogger(name).setLevel(logging.WARNING)


def main() -> int:
    """Run the operator; return 0, or 2 for invalid settings."""
    try:
        settings = Settings.from_env(os.environ)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    serving.configure_logging(settings.log_level)
    quieten()
    asyncio.run(serving.run_until_signal(lambda stop: run(settings, stop)))
    return 0


if __name__ == "__main__":
    serving.leave(main())
