"""`bendybus pipeline` for spark-submit, which takes a file: local:///usr/local/share/bendybus/pipeline.py."""

import sys

from bendybus.spark.commands import run

sys.exit(run.main(sys.argv[1:]))
