"""The source distribution of azure-servicebus with its tests and samples; downloaded once."""

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PIN: Final = ROOT / "requirements" / "azure-samples.txt"


def fetched() -> Path:
    """Return the folder of the pinned distribution, in build/. Nothing in it is changed."""
    # Another pin gets another folder.
    pin = hashlib.sha256(PIN.read_bytes()).hexdigest()[:12]
    folder = ROOT / "build" / "azure-servicebus" / pin
    if not any(folder.glob("azure*/tests")):
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--require-hashes", "--no-binary=azure-servicebus"]
        command += [f"--dest={folder}", f"--requirement={PIN}"]
        subprocess.run(command, check=True)
        [archive] = folder.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
    [tests] = folder.glob("azure*/tests")
    return tests.parent
