"""Segments as the plug-in stores them, of any bytes and settings [CHK-1, ENC-3, IXO-1, MAN-2]."""

from __future__ import annotations

import base64
import json
import os
import struct
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from segstore.log.files.checkpoints import (
    format_leader_epoch_checkpoint,
    parse_leader_epoch_checkpoint,
)
from segstore.remote.tiered.segment_manifest import INDEX_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from Crypto.PublicKey.RSA import RsaKey

TOPIC_ID, SEGMENT_ID = "MNLa-lFfSKy8CJMN7PSmCg", "ywNGp7RQSYSZHOkzcztCrQ"
MAIN_KEY = f"archive/orders-{TOPIC_ID}/0/00000000000000000100-{SEGMENT_ID}"
LINEAGE = b"0\n2\n0 0\n10 120\n"
METADATA: dict[str, Any] = {
    "remoteLogSegmentId": {
        "topicIdPartition": {
            "topicId": TOPIC_ID,
            "topicPartition": {"topic": "orders", "partition": 0},
        },
        "id": SEGMENT_ID,
    },
    "startOffset": 100,
    "endOffset": 199,
    "maxTimestampMs": 1735871068137,
    "brokerId": 1,
    "eventTimestampMs": 1795756877557,
    "segmentLeaderEpochs": {"10": 120, "0": 100},
}
INDEXES: dict[str, bytes | None] = {
    "offset": b"",
    "timestamp": bytes(12),
    "producerSnapshot": bytes(10),
    "leaderEpoch": LINEAGE,
    "transaction": None,
}


@cache
def rsa_key() -> RsaKey:
    """A key for these tests alone."""
    from Crypto.PublicKey import RSA

    return RSA.generate(2048)


def write_key(folder: Path, key_id: str = "k1") -> None:
    """Write the private key as the plug-in has it [ENC-6]."""
    folder.mkdir(exist_ok=True)
    (folder / f"{key_id}.private.pem").write_bytes(rsa_key().export_key(pkcs=8))


class Sealer:
    """Encrypts as the plug-in does; without a key id it leaves bytes as they are."""

    def __init__(self, key_id: str | None) -> None:
        self.key_id, self.key, self.aad = key_id, os.urandom(32), os.urandom(32)

    def seal(self, plain: bytes) -> bytes:
        """Return IV, ciphertext and tag."""
        if self.key_id is None:
            return plain
        from Crypto.Cipher import AES

        iv = os.urandom(12)
        cipher = AES.new(self.key, AES.MODE_GCM, nonce=iv, mac_len=16)
        cipher.update(self.aad)
        return iv + b"".join(cipher.encrypt_and_digest(plain))

    def fields(self) -> dict[str, str]:
        """Return the field ``encryption`` of the manifest."""
        from Crypto.Cipher import PKCS1_OAEP
        from Crypto.Hash import SHA3_512

        wrapped = PKCS1_OAEP.new(rsa_key().public_key(), hashAlgo=SHA3_512).encrypt(self.key)
        return {
            "dataKey": f"{self.key_id}:{base64.b64encode(wrapped).decode()}",
            "aad": base64.b64encode(self.aad).decode(),
        }


def chunk_sizes_block(sizes: list[int], width: int = 0) -> bytes:
    """Return the block of [MAN-4], not compressed yet."""
    if not sizes:
        return struct.pack(">i", 0)
    *first, last = sizes
    if not first:
        return struct.pack(">ii", 1, last)
    base = min(first)
    width = width or max((max(first) - base).bit_length() + 7, 8) // 8
    head = b"".join((size - base).to_bytes(width) for size in first)
    return struct.pack(">iiB", len(sizes), base, width) + head + struct.pack(">i", last)


def write_segment(  # noqa: PLR0913 - the settings of the plug-in
    bucket: Path,
    plain: bytes,
    chunk_size: int,
    *,
    compression: bool = False,
    key_id: str | None = None,
    indexes: dict[str, bytes | None] = INDEXES,
    main_key: str = MAIN_KEY,
    metadata: Mapping[str, Any] = METADATA,
) -> dict[str, Any]:
    """Write the three objects of a segment below *bucket*; return the manifest's fields."""
    import zstandard

    sealer = Sealer(key_id)
    pieces = [plain[at : at + chunk_size] for at in range(0, len(plain), chunk_size)]
    if compression:
        pieces = [zstandard.compress(piece) for piece in pieces]
    stored = [sealer.seal(piece) for piece in pieces]
    chunk_index: dict[str, Any] = {
        "type": "variable" if compression else "fixed",
        "originalChunkSize": chunk_size,
        "originalFileSize": len(plain),
    }
    if compression:
        block = zstandard.compress(chunk_sizes_block([len(one) for one in stored]))
        chunk_index["transformedChunks"] = base64.b64encode(block).decode()
    else:
        overhead = 28 if key_id else 0
        last = len(stored[-1]) if stored else 0
        chunk_index |= {
            "transformedChunkSize": chunk_size + overhead,
            "finalTransformedChunkSize": last,
        }
    places: dict[str, Any] = {}
    sealed = b""
    for name in INDEX_NAMES:
        index = indexes[name]
        if index is None:
            places[name] = None
            continue
        part = sealer.seal(index) if index else b""
        places[name] = {"position": len(sealed), "size": len(part)}
        sealed += part
    fields = {
        "version": "1",
        "chunkIndex": chunk_index,
        "segmentIndexes": places,
        "compression": compression,
        **({"encryption": sealer.fields()} if key_id else {}),
        "remoteLogSegmentMetadata": dict(metadata),
    }
    write_object(bucket, "log", b"".join(stored), main_key)
    write_object(bucket, "indexes", sealed, main_key)
    write_object(bucket, "rsm-manifest", json.dumps(fields).encode(), main_key)
    return fields


def write_log(log: Path, bucket: Path, chunk_size: int, **how: Any) -> None:
    """Copy the sealed segments of a partition's directory, as a broker does [MAN-7, IXO-4].

    Its name is ``<topic>-<partition>``; the active segment is not copied.
    """
    topic, _, partition = log.name.rpartition("-")
    epochs = parse_leader_epoch_checkpoint((log / "leader-epoch-checkpoint").read_bytes())
    segments = sorted(log.glob("*.log"))
    for path, following in pairwise(segments):
        start, end = int(path.stem), int(following.stem)
        below = [entry for entry in epochs if entry.start_offset < end]
        own = {str(one.epoch): max(one.start_offset, start) for one in below}
        for one, next_one in pairwise(below):
            if next_one.start_offset <= start:
                del own[str(one.epoch)]
        segment_id = base64.urlsafe_b64encode(start.to_bytes(16)).decode().rstrip("=")
        times = path.with_suffix(".timeindex").read_bytes()
        write_segment(
            bucket,
            path.read_bytes(),
            chunk_size,
            indexes={
                "offset": path.with_suffix(".index").read_bytes(),
                "timestamp": times,
                "producerSnapshot": following.with_suffix(".snapshot").read_bytes(),
                "leaderEpoch": format_leader_epoch_checkpoint(below),
                "transaction": None,
            },
            main_key=f"{topic}-{TOPIC_ID}/{partition}/{start:020d}-{segment_id}",
            metadata={
                "remoteLogSegmentId": {
                    "topicIdPartition": {
                        "topicId": TOPIC_ID,
                        "topicPartition": {"topic": topic, "partition": int(partition)},
                    },
                    "id": segment_id,
                },
                "startOffset": start,
                "endOffset": end - 1,
                "maxTimestampMs": int.from_bytes(times[-12:-4]),
                "brokerId": 1,
                "eventTimestampMs": 1795756877557 + start,
                "segmentLeaderEpochs": own,
            },
            **how,
        )


def write_object(bucket: Path, suffix: str, data: bytes, main_key: str = MAIN_KEY) -> None:
    """Write, or replace, one object of a segment."""
    path = bucket / f"{main_key}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def object_path(bucket: Path, suffix: str) -> Path:
    """Return where an object of `MAIN_KEY` lies."""
    return bucket / f"{MAIN_KEY}.{suffix}"
