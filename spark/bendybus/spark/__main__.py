"""`python -m bendybus.spark`, and `bendybus pipeline`: the entry point of the jobs."""

import sys

if __name__ == "__main__":
    from bendybus.spark.commands import run

    sys.exit(run.main(sys.argv[1:]))
