"""`python -m tests.azure_sdk.sample_process FILE`: run an unmodified Azure program on the live bus.

Two substitutions: certifi's file also has the CA of the bus, and `azure.identity` is a stub.
"""

import runpy
import sys

from tests.azure_sdk import substitutions

if __name__ == "__main__":
    substitutions.trust_the_bus()
    substitutions.stand_for_identity()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
