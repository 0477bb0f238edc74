"""The versions that work together, and the sentences of those that do not."""

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from bendybus.domain.errors import InvalidOperation
from bendybus.internal.v1 import entity_pb2
from bendybus.wire import catalogue, contract_versions
from bendybus.wire.contract_versions import CLIENT, FRONT_END, OPERATOR, PARTITION, Contract

pytestmark = pytest.mark.requirement("R602")
ROOT: Final = Path(__file__).parents[2]
WATCHERS = [FRONT_END, OPERATOR, PARTITION]


def of_number(number: int) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a peer of some number."""
    return (("bendybus-contract", str(number)),)


@pytest.mark.parametrize("contract", [CLIENT, *WATCHERS])
def test_the_number_before_and_the_number_after_are_served(contract: Contract) -> None:
    for number in (contract.number - 1, contract.number, contract.number + 1):
        contract.check(number, peer="a peer", own="this process")

    for number in (0, contract.number - 2, contract.number + 2):
        with pytest.raises(InvalidOperation, match="Only neighbouring versions work together"):
            contract.check(number, peer="a peer", own="this process")


def test_the_sentence_names_both_versions_and_says_what_to_upgrade() -> None:
    with pytest.raises(InvalidOperation) as earlier:
        FRONT_END.check_watched(0, 3)
    with pytest.raises(InvalidOperation) as later:
        FRONT_END.check_watched(FRONT_END.number + 2, 3)

    assert earlier.value.message == (
        "partition 3 runs a version of Bendybus before 0.13.0, and this front end runs 0.14.2. "
        "Only neighbouring versions work together: upgrade partition 3 to 0.13.1 first."
    )
    assert later.value.message == (
        "partition 3 uses version 6 of the contract between front end and partition, and this "
        "front end, which runs Bendybus 0.14.2, uses version 4. Only neighbouring versions work "
        "together: upgrade this front end first, to the next version."
    )


def test_the_versions_that_sentences_name_are_this_release_and_the_one_before() -> None:
    released = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    names = (contract_versions.OLDEST, contract_versions.PREVIOUS, contract_versions.RELEASE)
    oldest, before, own = (tuple(map(int, name.split("."))) for name in names)

    # Until it is released, the version of the package is that of the one before.
    assert released in names[1:]
    assert oldest <= before < own


@pytest.mark.parametrize(
    ("metadata", "served"),
    [
        (of_number(CLIENT.number), True),
        (of_number(CLIENT.number + 1), True),
        (of_number(CLIENT.number + 2), False),
        # As 0.11 says it.
        ((), False),
        (None, False),
        # No number.
        ((("bendybus-contract", "two"),), False),
        ((("bendybus-contract", "9" * 5_000),), False),
        ((("bendybus-contract", b"2"),), False),
    ],
)
def test_a_caller_is_known_by_its_metadata(metadata: Any, served: bool) -> None:
    def check() -> None:
        CLIENT.check_caller(metadata)

    if served:
        check()
    else:
        with pytest.raises(InvalidOperation, match="this client"):
            check()


@pytest.mark.parametrize(
    "text", ["9" * 7, "9" * 5_000, "0", "-1", "+2", "0x2", "2.0", "x", "", "²"]
)
def test_whoever_says_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidOperation, match="this client"):
        CLIENT.check_caller((("bendybus-contract", text),))


@pytest.mark.parametrize("contract", WATCHERS)
def test_a_watcher_says_its_contract_and_gets_the_number_of_it(contract: Contract) -> None:
    request = catalogue.watch_request(contract, 3, part_bytes=7)

    assert (request.partition, request.part_bytes) == (3, 7)
    assert catalogue.watched_under(request) is contract
    [answer] = catalogue.watch_responses(
        entity_pb2.Fingerprint(), (), snapshot=True, contract=contract
    )
    contract.check_watched(answer.contract, 3)


def test_a_watcher_that_says_no_number_is_refused() -> None:
    with pytest.raises(InvalidOperation, match="this front end runs a version of Bendybus before"):
        catalogue.watched_under(entity_pb2.WatchEntitiesRequest())


@pytest.mark.parametrize("contract", WATCHERS)
def test_a_watcher_of_a_later_version_is_refused(contract: Contract) -> None:
    request = catalogue.watch_request(contract, 3)
    request.contract += 2

    said = f"this {contract.caller} uses version {request.contract}"
    with pytest.raises(InvalidOperation, match=said):
        catalogue.watched_under(request)
