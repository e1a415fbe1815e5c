"""A tiered bucket made of a log, and what its chunks cost alone: decryption and decompression."""

from __future__ import annotations

import base64
import json
import os
import struct
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import segstore

from .datasets import FIRST_TIMESTAMP, replicated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC = "bench"
TOPIC_ID = "MNLa-lFfSKy8CJMN7PSmCg"
FOLDER = f"{TOPIC}-{TOPIC_ID}/0"
TAG_BYTES, IV_BYTES = 16, 12
LOG_START = b"0\n1\n0 0\n"
EMPTY_SNAPSHOT = b"\0\1" + struct.pack(">I", 0x7BD5C66F) + bytes(4)
"""Version 1, CRC-32C of what follows, no producer."""


def write_log(directory: Path, segments: int, copies: int = 1) -> int:
    """Write ``bench-0`` in *directory*; return its bytes. The segments are closed ones."""
    pool = replicated(100, 65_536)
    size = 0
    with segstore.open(directory / f"{TOPIC}-0", durability="none", segment_ms=None) as log:
        per_segment = -(-len(pool) * copies // segments)
        for number in range(len(pool) * copies):
            if number and number % per_segment == 0:
                log.roll()
            batch = bytearray(pool[number % len(pool)])
            struct.pack_into(">q", batch, 0, log.log_end_offset)
            log.append_as_follower(bytes(batch), 0)
            size += len(batch)
        log.roll()
    return size


class Cipher:
    """The key of all segments; None: nothing is encrypted."""

    def __init__(self, keys: Path | None) -> None:
        self.keys = keys
        self.key, self.aad = bytes(range(32)), bytes(32)
        if keys is not None:
            keys.mkdir()
            (keys / "k1.private.pem").write_bytes(_rsa_key().export_key(pkcs=8))

    def seal(self, plain: bytes) -> bytes:
        """Encrypt as the plug-in does."""
        if self.keys is None or not plain:
            return plain
        from Crypto.Cipher import AES

        iv = os.urandom(IV_BYTES)
        cipher = AES.new(self.key, AES.MODE_GCM, nonce=iv, mac_len=TAG_BYTES)
        cipher.update(self.aad)
        return iv + b"".join(cipher.encrypt_and_digest(plain))

    def open(self, stored: memoryview) -> bytes | memoryview:
        """Decrypt one chunk with the library alone."""
        if self.keys is None:
            return stored
        from Crypto.Cipher import AES

        cipher = AES.new(self.key, AES.MODE_GCM, nonce=bytes(stored[:IV_BYTES]), mac_len=TAG_BYTES)
        cipher.update(self.aad)
        plain: bytes = cipher.decrypt_and_verify(stored[IV_BYTES:-TAG_BYTES], stored[-TAG_BYTES:])
        return plain

    def unwrap(self) -> None:
        """Decrypt the key of a segment, whose manifest has its own."""
        if self.keys is None:
            return
        from Crypto.Cipher import PKCS1_OAEP
        from Crypto.Hash import SHA3_512

        assert PKCS1_OAEP.new(_rsa_key(), hashAlgo=SHA3_512).decrypt(self._wrapped()) == self.key

    @cache  # noqa: B019 - one key, and as long as the process
    def _wrapped(self) -> bytes:
        from Crypto.Cipher import PKCS1_OAEP
        from Crypto.Hash import SHA3_512

        wrapped: bytes = PKCS1_OAEP.new(_rsa_key().public_key(), hashAlgo=SHA3_512).encrypt(
            self.key
        )
        return wrapped

    def fields(self) -> dict[str, Any]:
        """Return what the manifest says of it."""
        if self.keys is None:
            return {}
        return {
            "encryption": {
                "dataKey": f"k1:{base64.b64encode(self._wrapped()).decode()}",
                "aad": base64.b64encode(self.aad).decode(),
            }
        }


@cache
def _rsa_key() -> Any:
    from Crypto.PublicKey import RSA

    return RSA.generate(2048)


class TieredCopy:
    """The bucket of a log that `write_log` wrote.

    Attributes
    ----------
    bucket : Path
        The folder.
    cipher : Cipher
        Its key.
    chunks : list of (Path, list of int)
        Each ``.log`` with the stored sizes of its chunks.
    """

    def __init__(self, log: Path, bucket: Path, chunk_size: int, transform: str) -> None:
        self.bucket = bucket
        self.cipher = Cipher(bucket.parent / "keys" if "aes" in transform else None)
        self.is_compressed = "zstd" in transform
        self.chunks: list[tuple[Path, list[int]]] = []
        (bucket / FOLDER).mkdir(parents=True)
        bases = sorted(int(path.stem) for path in log.glob("*.log"))
        for base, following in pairwise(bases):
            self._copy(log, base, following - 1, chunk_size)

    @property
    def keys(self) -> Any:
        """As ``segstore.open_bucket`` takes them."""
        return self.cipher.keys or {}

    def undo_alone(self) -> float:
        """Decrypt and decompress all chunks with the libraries alone; return the plain bytes."""
        import zstandard

        total = 0
        for path, sizes in self.chunks:
            self.cipher.unwrap()
            data, at = memoryview(path.read_bytes()), 0
            for size in sizes:
                plain = self.cipher.open(data[at : at + size])
                total += len(
                    zstandard.ZstdDecompressor().decompress(plain) if self.is_compressed else plain
                )
                at += size
        return total

    def _copy(self, log: Path, base: int, last: int, chunk_size: int) -> None:
        segment_id = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()
        main = self.bucket / FOLDER / f"{base:020}-{segment_id}"
        source = log / f"{base:020}.log"
        size = source.stat().st_size
        if self.cipher.keys is None and not self.is_compressed:
            os.link(source, f"{main}.log")
            sizes = [min(chunk_size, size - at) for at in range(0, size, chunk_size)]
        else:
            with source.open("rb") as stream, open(f"{main}.log", "wb") as target:  # noqa: PTH123
                sizes = [target.write(self._stored(one)) for one in _pieces(stream, chunk_size)]
        self.chunks.append((main.with_name(f"{main.name}.log"), sizes))
        names = {
            "offset": _bytes_of(log / f"{base:020}.index"),
            "timestamp": _bytes_of(log / f"{base:020}.timeindex"),
            "producerSnapshot": _bytes_of(log / f"{last + 1:020}.snapshot") or EMPTY_SNAPSHOT,
            "leaderEpoch": LOG_START,
        }
        stored = {name: self.cipher.seal(data) for name, data in names.items()}
        at, places = 0, {}
        for name, data in stored.items():
            places[name] = {"position": at, "size": len(data)}
            at += len(data)
        manifest = {
            "version": "1",
            "chunkIndex": self._chunk_index(size, chunk_size, sizes),
            "segmentIndexes": {**places, "transaction": None},
            "compression": self.is_compressed,
            **self.cipher.fields(),
            "remoteLogSegmentMetadata": {
                "remoteLogSegmentId": {
                    "topicIdPartition": {
                        "topicId": TOPIC_ID,
                        "topicPartition": {"topic": TOPIC, "partition": 0},
                    },
                    "id": segment_id,
                },
                "startOffset": base,
                "endOffset": last,
                "maxTimestampMs": FIRST_TIMESTAMP,
                "brokerId": 1,
                "eventTimestampMs": FIRST_TIMESTAMP,
                "segmentLeaderEpochs": {"0": base},
            },
        }
        main.with_name(f"{main.name}.indexes").write_bytes(b"".join(stored.values()))
        main.with_name(f"{main.name}.rsm-manifest").write_bytes(json.dumps(manifest).encode())

    def _stored(self, plain: bytes) -> bytes:
        import zstandard

        return self.cipher.seal(zstandard.compress(plain) if self.is_compressed else plain)

    def _chunk_index(self, size: int, chunk_size: int, sizes: list[int]) -> dict[str, Any]:
        shared = {"originalChunkSize": chunk_size, "originalFileSize": size}
        if not self.is_compressed:
            overhead = IV_BYTES + TAG_BYTES if self.cipher.keys is not None else 0
            return {
                "type": "fixed",
                **shared,
                "transformedChunkSize": chunk_size + overhead,
                "finalTransformedChunkSize": sizes[-1],
            }
        import zstandard

        head, last = sizes[:-1], sizes[-1]
        block = struct.pack(">i", len(sizes))
        if head:
            block += struct.pack(">iB", min(head), 4)
            block += b"".join(struct.pack(">I", one - min(head)) for one in head)
        block = zstandard.compress(block + struct.pack(">i", last))
        return {
            "type": "variable",
            **shared,
            "transformedChunks": base64.b64encode(block).decode(),
        }


def _pieces(stream: Any, chunk_size: int) -> Iterator[bytes]:
    while data := stream.read(chunk_size):
        yield data


def _bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
