"""The operator's own authority, over its whole life."""

import datetime as dt
import functools
import os
import shutil
import subprocess
from collections import deque
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import verification

from bendybus.operator.certificates import certificate_authority
from bendybus.operator.certificates.certificate_authority import Authority, Pair

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
HOST = "orders-frontend.shop.svc"
URI = "spiffe://bendybus/ns/shop/bus/orders/frontend"


def issued(authority: Authority, now: dt.datetime, days: int = 90) -> Pair:
    return certificate_authority.issue(
        authority,
        name="test",
        dns_names=[HOST],
        uris=[URI],
        ip_addresses=["127.0.0.1"],
        days=days,
        now=now,
    )


def current(pair: Pair, authority: Authority, now: dt.datetime, host: str = HOST) -> bool:
    files = {"tls.crt": pair.certificate, "tls.key": pair.key}
    return certificate_authority.is_current(files, authority, dns_names=[host], uris=[URI], now=now)


@functools.lru_cache(maxsize=64)
def loaded(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


@functools.lru_cache(maxsize=64)
def store(bundle: str) -> verification.Store:
    return verification.Store(x509.load_pem_x509_certificates(bundle.encode()))


def verify(pair: Pair, bundle: str, now: dt.datetime) -> None:
    """Verify as a client and as a server would. Raises VerificationError."""
    builder = verification.PolicyBuilder().store(store(bundle)).time(now.replace(tzinfo=None))
    builder.build_server_verifier(x509.DNSName(HOST)).verify(loaded(pair.certificate), [])
    builder.build_client_verifier().verify(loaded(pair.certificate), [])


def test_a_certificate_verifies_against_the_bundle() -> None:
    authority = certificate_authority.new_authority(START)

    verify(issued(authority, START), authority.bundle, START)


@pytest.mark.skipif(
    shutil.which("openssl") is None and not os.environ.get("CI"),
    reason="openssl is not here; CI must have it",
)
def test_openssl_takes_the_chain(tmp_path: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    authority = certificate_authority.new_authority(now)
    (tmp_path / "ca.crt").write_text(authority.bundle)
    (tmp_path / "tls.crt").write_text(issued(authority, now).certificate)

    done = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-verify_hostname", HOST,
         "-CAfile", "ca.crt", "tls.crt"],
        cwd=tmp_path, capture_output=True, text=True, timeout=30,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr


def test_another_authority_is_not_trusted() -> None:
    ours, theirs = (
        certificate_authority.new_authority(START),
        certificate_authority.new_authority(START),
    )

    with pytest.raises(verification.VerificationError):
        verify(issued(theirs, START), ours.bundle, START)


def test_a_certificate_cannot_sign_others() -> None:
    authority = certificate_authority.new_authority(START)
    leaf = loaded(issued(authority, START).certificate)

    basic = leaf.extensions.get_extension_for_class(x509.BasicConstraints).value

    assert basic.ca is False


def test_a_certificate_holds_its_names_and_identity() -> None:
    leaf = loaded(issued(certificate_authority.new_authority(START), START).certificate)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert names.get_values_for_type(x509.DNSName) == [HOST]
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [URI]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_a_certificate_is_renewed_when_a_third_is_left() -> None:
    authority = certificate_authority.new_authority(START)
    pair = issued(authority, START)

    assert current(pair, authority, START + 59 * DAY)
    assert not current(pair, authority, START + 61 * DAY)


def test_a_certificate_of_other_names_is_renewed() -> None:
    authority = certificate_authority.new_authority(START)

    assert not current(issued(authority, START), authority, START, host="else.where")


def test_a_certificate_by_another_authority_is_renewed() -> None:
    ours, theirs = (
        certificate_authority.new_authority(START),
        certificate_authority.new_authority(START),
    )

    assert not current(issued(theirs, START), ours, START)


def test_a_certificate_with_anothers_key_is_renewed() -> None:
    authority = certificate_authority.new_authority(START)
    first, second = issued(authority, START), issued(authority, START)

    assert not current(Pair(first.certificate, second.key), authority, START)


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN CERTIFICATE-----\nxx\n"])
def test_what_is_no_certificate_is_replaced(text: str) -> None:
    authority = certificate_authority.new_authority(START)
    pair = issued(authority, START)

    assert not current(Pair(text, pair.key), authority, START)
    assert not current(Pair(pair.certificate, text), authority, START)
    assert not certificate_authority.is_current(
        {}, authority, dns_names=[HOST], uris=[URI], now=START
    )


def test_keys_are_not_printed() -> None:
    authority = certificate_authority.new_authority(START)

    assert "PRIVATE" not in repr(authority)
    assert "PRIVATE" not in repr(issued(authority, START))


def test_an_authority_comes_back_from_its_files() -> None:
    authority = certificate_authority.new_authority(START)
    in_handover = certificate_authority.advanced(authority, START + 2500 * DAY)

    for each in (authority, in_handover):
        assert Authority.from_files(each.to_files()) == each


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt", "next.key"])
def test_files_that_are_no_authority_are_refused(name: str) -> None:
    files = certificate_authority.advanced(
        certificate_authority.new_authority(START), START + 2500 * DAY
    ).to_files()

    with pytest.raises((KeyError, ValueError)):
        Authority.from_files({**files, name: "nonsense"})


def test_the_next_authority_is_trusted_a_day_before_it_signs() -> None:
    first = certificate_authority.new_authority(START)
    trusted = certificate_authority.advanced(first, START + 2434 * DAY)

    same = certificate_authority.advanced(trusted, START + 2434 * DAY + dt.timedelta(hours=23))
    signing = certificate_authority.advanced(trusted, START + 2435 * DAY + dt.timedelta(minutes=1))

    assert trusted.upcoming is not None
    assert trusted.current == first.current
    assert trusted.upcoming.certificate in trusted.bundle
    assert same is trusted
    assert signing.current == trusted.upcoming
    assert first.current.certificate in signing.bundle


def test_an_authority_that_has_ended_leaves_the_bundle() -> None:
    first = certificate_authority.new_authority(START)
    second = certificate_authority.advanced(
        certificate_authority.advanced(first, START + 2500 * DAY), START + 2502 * DAY
    )

    assert first.current.certificate in second.bundle
    assert first.current.certificate not in certificate_authority.advanced(
        second, START + 3651 * DAY
    ).bundle  # fmt: skip


def test_in_eleven_years_no_certificate_ever_fails_to_verify() -> None:
    """Day by day: whoever refreshed its files within a day trusts whoever else did."""
    authority = certificate_authority.new_authority(START)
    leaf = issued(authority, START)
    bundles, leaves = deque([authority.bundle], maxlen=2), deque([leaf], maxlen=2)
    signers = {authority.current.certificate}
    renewals = 0

    for day in range(11 * 365):
        now = START + day * DAY
        authority = certificate_authority.advanced(authority, now)
        if not current(leaf, authority, now):
            leaf = issued(authority, now)
            renewals += 1
        bundles.append(authority.bundle)
        leaves.append(leaf)
        signers.add(authority.current.certificate)
        for bundle in set(bundles):
            for pair in set(leaves):
                verify(pair, bundle, now)

    assert len(signers) == 2
    assert 60 <= renewals <= 75


@pytest.mark.parametrize("ahead", [dt.timedelta(minutes=11), DAY, 365 * DAY], ids=str)
def test_a_certificate_of_a_clock_that_was_ahead_is_replaced_at_once(ahead: dt.timedelta) -> None:
    authority = certificate_authority.new_authority(START - DAY)
    pair = issued(authority, START + ahead)

    assert not current(pair, authority, START)
    verify(issued(authority, START), authority.bundle, START)


@pytest.mark.parametrize("minutes", [0, 9])
def test_clocks_that_differ_by_minutes_cost_no_certificate(minutes: int) -> None:
    authority = certificate_authority.new_authority(START)
    pair = issued(authority, START + dt.timedelta(minutes=minutes))

    assert current(pair, authority, START)


def test_an_authority_of_a_clock_that_was_ahead_is_replaced_within_two_days() -> None:
    authority = certificate_authority.new_authority(START + 365 * DAY)

    authority = certificate_authority.advanced(authority, START)
    assert authority.upcoming is not None
    authority = certificate_authority.advanced(authority, START + 2 * DAY)

    verify(issued(authority, START + 2 * DAY), authority.bundle, START + 2 * DAY)
    assert certificate_authority.advanced(authority, START + 3 * DAY) is authority


def test_a_next_authority_of_a_clock_that_was_ahead_is_replaced() -> None:
    first = certificate_authority.new_authority(START)
    # Seven years ahead, the next one is made.
    ahead = certificate_authority.advanced(first, START + 2555 * DAY)
    assert ahead.upcoming is not None

    mended = certificate_authority.advanced(ahead, START + DAY)
    done = certificate_authority.advanced(mended, START + 3 * DAY)

    assert (done.current, done.upcoming) == (mended.upcoming, None)
    assert done.current not in (first.current, ahead.upcoming)
    verify(issued(first, START + DAY), done.bundle, START + 3 * DAY)


def test_a_clock_that_is_set_back_for_weeks_breaks_nothing() -> None:
    """The true time is START; the operator's clock is 30 days behind for a while."""
    authority = certificate_authority.new_authority(START - DAY)
    before = issued(authority, START - DAY)
    wrong = START - 30 * DAY

    stepped = certificate_authority.advanced(authority, wrong)
    reissued = issued(stepped, wrong)

    # Certificates of both times are valid for clients with the bundle of either time.
    for pair in (before, reissued):
        verify(pair, authority.bundle, START)
        verify(pair, stepped.bundle, START)


def test_keys_are_of_the_curve_that_grpc_takes() -> None:
    pair = issued(certificate_authority.new_authority(START), START)

    key = loaded(pair.certificate).public_key()

    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
