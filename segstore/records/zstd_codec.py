"""zstd: Python's own module from 3.14 on, else zstandard [format.md 8.4].

Kafka stores no content size, so the frames are walked first: that finds their ends, proves that
none is cut, and bounds the output before memory is taken for it [DUR-92, DUR-93]. Contexts are
kept, one set a thread: making one costs more than a batch.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from segstore.errors import CodecError, CodecMissingError, LimitExceededError
from segstore.records.zstd_frame import MAX_WINDOW_LOG, frames_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LIBRARY: Final = "zstd"

DEFAULT_LEVEL: Final = 3
LEVELS: Final = (-131072, 22)


class _Contexts(threading.local):
    """What one thread compresses and decompresses with."""

    def __init__(self) -> None:
        self.compressors: dict[int, Callable[[bytes], bytes]] = {}
        self.decompressor: Callable[[memoryview, int], bytes] | None = None


_contexts: Final = _Contexts()


class StandardLibrary:
    """``compression.zstd``."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.error: type[Exception] = module.ZstdError
        self.version = f"compression.zstd (libzstd {module.zstd_version})"

    def compressor(self, level: int) -> Callable[[bytes], bytes]:
        """A function that makes one frame without content size and checksum."""
        names = self.module.CompressionParameter
        options = {
            names.compression_level: level,
            names.content_size_flag: 0,
            names.checksum_flag: 0,
        }
        context = self.module.ZstdCompressor(options=options)

        def compress_frame(data: bytes) -> bytes:
            frame: bytes = context.compress(data, context.FLUSH_FRAME)
            return frame

        return compress_frame

    def decompressor(self) -> Callable[[memoryview, int], bytes]:
        """A function that gives one frame's content, at most so many bytes."""
        options = {self.module.DecompressionParameter.window_log_max: MAX_WINDOW_LOG}

        def decompress_frame(frame: memoryview, limit: int) -> bytes:
            context = self.module.ZstdDecompressor(options=options)
            content: bytes = context.decompress(frame, limit)
            return content

        return decompress_frame

    beginning_decompressor = decompressor


class Zstandard:
    """The package ``zstandard``."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.error: type[Exception] = module.ZstdError
        self.version = f"zstandard {module.__version__}"

    def compressor(self, level: int) -> Callable[[bytes], bytes]:
        """A function that makes one frame without content size and checksum."""
        context = self.module.ZstdCompressor(
            level=level, write_content_size=False, write_checksum=False, write_dict_id=False
        )
        compress_frame: Callable[[bytes], bytes] = context.compress
        return compress_frame

    def decompressor(self) -> Callable[[memoryview, int], bytes]:
        """A function that gives one frame's content, at most so many bytes."""
        size_of: Callable[[memoryview], int] = self.module.frame_content_size
        context = self.module.ZstdDecompressor(max_window_size=1 << MAX_WINDOW_LOG)
        decompress_beginning = self.beginning_decompressor()

        def decompress_frame(frame: memoryview, limit: int) -> bytes:
            if 0 < size_of(frame) <= limit:  # one copy less, and the size was compared before
                content: bytes = context.decompress(frame)
                return content
            return decompress_beginning(frame, limit)

        return decompress_frame

    def beginning_decompressor(self) -> Callable[[memoryview, int], bytes]:
        """A function that gives the first bytes of a frame that may be cut, at most so many."""
        context = self.module.ZstdDecompressor(max_window_size=1 << MAX_WINDOW_LOG)

        def decompress_beginning(frame: memoryview, limit: int) -> bytes:
            with context.stream_reader(frame) as reader:
                content: bytes = reader.read(limit)
            return content

        return decompress_beginning


@cache
def _library() -> StandardLibrary | Zstandard:
    for name, adapter in (("compression.zstd", StandardLibrary), ("zstandard", Zstandard)):
        try:
            return adapter(importlib.import_module(name))
        except ImportError:
            continue
    raise CodecMissingError(
        "zstd needs Python 3.14 or the package zstandard: pip install zstandard",
        found="no package zstandard",
        expected="Python 3.14 or the package zstandard",
    )


def library_version() -> str:
    """Library and version, for people."""
    try:
        return _library().version
    except CodecMissingError as error:
        return f"missing: {error.message}"


def compress(data: bytes, level: int) -> bytes:
    """Compress to one frame; a level outside zstd's is the default, 3."""
    effective = level if LEVELS[0] <= level <= LEVELS[1] else DEFAULT_LEVEL
    compress_frame = _contexts.compressors.get(effective)
    if compress_frame is None:
        compress_frame = _contexts.compressors[effective] = _library().compressor(effective)
    return compress_frame(data)


def decompress(data: memoryview, limit: int) -> bytes:
    """Decompress all frames to at most *limit* bytes; anything that is no frame is an error."""
    try:
        return decompress_frames(frames_of(data), limit)
    except CodecError as error:
        error.decoded = _before_break(data, limit)
        raise


def _before_break(data: memoryview, limit: int) -> bytes:
    """Return the content of the frames before the break, and of the broken one's first blocks."""
    library = _library()
    decompress_frame = library.decompressor()
    content = bytearray()
    position = 0
    try:
        for frame, bound in frames_of(data):
            content += decompress_frame(frame, min(bound, limit - len(content)))
            position += len(frame)
    except (CodecError, library.error):
        with contextlib.suppress(library.error):  # a frame that is cut gives its whole blocks
            decompress_beginning = library.beginning_decompressor()
            content += decompress_beginning(data[position:], limit - len(content))
    return bytes(content[:limit])


def decompress_frames(frames: Iterable[tuple[memoryview, int]], limit: int) -> bytes:
    """Decompress frames that `frames_of` gives, to at most *limit* bytes."""
    library = _library()
    if _contexts.decompressor is None:
        _contexts.decompressor = library.decompressor()
    parts: list[bytes] = []
    size = 0
    for frame, bound in frames:
        try:  # one byte more than allowed shows that there are more
            part = _contexts.decompressor(frame, min(bound, limit - size) + 1)
        except library.error as error:
            raise CodecError(f"zstd: {error}", found=str(error), expected="a frame") from error
        size += len(part)
        if size > limit:
            raise LimitExceededError(
                "zstd data decompresses to more than max_decompressed_batch_bytes",
                found=f"more than {limit} bytes",
                expected=f"at most {limit} bytes",
            )
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
