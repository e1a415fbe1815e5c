"""Kafka's BrokerCompressionTest."""

from __future__ import annotations

import pytest

from segstore.types import Codec
from tests.kits.log_kit import batch
from tests.kits.records_kit import headers

SETTINGS = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("setting", SETTINGS)
def test_broker_side_compression(new_log, setting, codec):
    """[CFG-19m, CFG-19, APP-30] BrokerCompressionTest.testBrokerSideCompression."""
    log = new_log(compression_type=setting)
    log.append_as_leader(batch([(None, b"hello"), (None, b"there")], codec=codec), 0)

    (found,) = headers(bytes(log.read(0, 10_000).records))
    expected = {"producer": codec, "uncompressed": Codec.NONE}.get(setting)
    expected = Codec[setting.upper()] if expected is None else expected
    assert found["attributes"] & 7 == expected.value
