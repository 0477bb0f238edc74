"""What a folder of data is of: tier and partitions stay what they were."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from bendybus.cli.errors import CliError
from bendybus.cli.local import data_directory
from bendybus.cli.local.programs import Programs
from bendybus.crds.bundle import NamespaceSettings
from bendybus.domain.errors import PartitioningImmutable
from bendybus.domain.limits import Tier

NAMESPACE = NamespaceSettings("bus", Tier.PREMIUM, 4)


@pytest.mark.requirement("R07")
@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (NamespaceSettings("bus", Tier.PREMIUM, 8), "premiumMessagingPartitions is 4 since"),
        (NamespaceSettings("bus", Tier.STANDARD, 16), "sku.tier is Premium since"),
    ],
)
def test_a_folder_keeps_its_tier_and_its_number_of_partitions(
    tmp_path: Path, wanted: NamespaceSettings, sentence: str
) -> None:
    first = data_directory.identify(tmp_path, NAMESPACE)

    with pytest.raises(PartitioningImmutable, match=sentence):
        data_directory.identify(tmp_path, wanted)

    assert data_directory.identify(tmp_path, NAMESPACE) == first


def test_a_folder_of_another_bus_is_refused(tmp_path: Path) -> None:
    data_directory.identify(tmp_path, NAMESPACE)

    with pytest.raises(CliError, match="holds BusNamespace 'bus', not 'other'"):
        data_directory.identify(tmp_path, NamespaceSettings("other", Tier.PREMIUM, 4))


@pytest.mark.requirement("R214")
def test_partition_servers_are_told_where_the_others_are(tmp_path: Path) -> None:
    identity = data_directory.identify(tmp_path, NAMESPACE)

    command = Programs().partition_server_command(
        identity,
        data=tmp_path,
        partitions=(0,),
        listen="127.0.0.1:1",
        metrics_port=1,
        peers={1: "127.0.0.1:2", 0: "127.0.0.1:1"},
    )

    told = [command[at + 1] for at, word in enumerate(command) if word == "--peer"]
    assert told == ["0=127.0.0.1:1", "1=127.0.0.1:2"]


@pytest.mark.requirement("R06")
def test_partition_servers_are_told_how_many_partitions_their_bus_has(tmp_path: Path) -> None:
    identity = data_directory.identify(tmp_path, NAMESPACE)

    command = Programs().partition_server_command(
        identity, data=tmp_path, partitions=(1, 3), listen="127.0.0.1:0", metrics_port=1, peers={}
    )

    assert command[command.index("--partition-count") + 1] == "4"


@pytest.mark.requirement("R587")
@pytest.mark.parametrize("existing", [False, True])
def test_what_a_bus_keeps_is_for_its_user_alone(tmp_path: Path, existing: bool) -> None:
    folder, before = tmp_path / "data", os.umask(0o022)
    if existing:
        folder.mkdir(mode=0o755)
    try:
        with data_directory.held(folder):
            (folder / "logs").mkdir()
            (folder / "logs" / "partition.log").write_text("secret", encoding="utf-8")
            subprocess.run(["touch", folder / "partition.db"], check=True)
        after = os.umask(before)
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes == {"lock": 0o600, "logs": 0o700, "partition.log": 0o600, "partition.db": 0o600}
    assert after == 0o022


@pytest.mark.requirement("R587")
def test_a_folder_that_users_share_stays_shared(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)

    with data_directory.held(folder):
        (folder / "partition.db").touch()

    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert stat.S_IMODE((folder / "partition.db").stat().st_mode) == 0o600
