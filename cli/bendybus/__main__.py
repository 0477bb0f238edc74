"""`python -m bendybus`: the same as `bendybus`."""

import sys

from bendybus.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
