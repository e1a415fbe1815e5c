"""Kafka's VerificationGuardTest."""

from __future__ import annotations

from segstore.log.producers.verification_state_entry import VerificationGuard

SENTINEL = VerificationGuard.SENTINEL


def test_equals_and_hash_code():
    """[PSM-31] VerificationGuardTest.testEqualsAndHashCode."""
    first, second = VerificationGuard(), VerificationGuard()

    assert len({first, second, SENTINEL}) == 3
    assert len({hash(first), hash(second), hash(SENTINEL)}) == 3
    assert SENTINEL == VerificationGuard.SENTINEL
    assert second.value > first.value > SENTINEL.value == 0


def test_verify():
    """[PSM-31] VerificationGuardTest.testVerify."""
    first, second = VerificationGuard(), VerificationGuard()

    assert not first.verify(second)
    assert not first.verify(SENTINEL)
    assert not SENTINEL.verify(first)
    assert not SENTINEL.verify(SENTINEL)
    assert first.verify(first)
