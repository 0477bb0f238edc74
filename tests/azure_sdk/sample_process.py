"""`python -m tests.azure_sdk.sample_process FILE`: a program for Azure on the live bus, unchanged.

Two things differ from a process on Azure: certifi's file has the authority of the bus as well, and
`azure.identity` is a stub.
"""

import runpy
import sys

from tests.azure_sdk import substitutions

if __name__ == "__main__":
    substitutions.trust_the_bus()
    substitutions.stand_for_identity()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
