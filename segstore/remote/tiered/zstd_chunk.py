"""One zstd frame of a known size: a chunk of a segment, or the block of a chunk index [CHK-3]."""

from __future__ import annotations

from segstore.errors import CodecError, LimitExceededError
from segstore.records import zstd_codec
from segstore.records.zstd_frame import frames_of


def undo_zstd(data: bytes | memoryview, most_bytes: int) -> bytes:
    """Return the content of *data*, which is one zstd frame and nothing else.

    The frame is walked before it is decompressed: what it declares is compared with *most_bytes*,
    and with what its blocks can make.

    Raises
    ------
    CodecError
        It is no frame, is damaged, or more stands behind it.
    LimitExceededError
        It has more than *most_bytes* bytes.
    UnsupportedFormatError
        It needs a dictionary, or a window above 128 MiB.
    """
    view = memoryview(data)
    frames = list(frames_of(view))
    if len(frames) != 1 or len(frames[0][0]) != len(view):
        raise CodecError(
            "zstd: not one frame",
            position=0,
            found=f"{len(frames)} frames in {len(view)} bytes",
            expected="1 frame",
        )
    try:
        return zstd_codec.decompress_frames(frames, most_bytes)
    except LimitExceededError:
        raise LimitExceededError(
            "zstd: the frame is too large",
            position=0,
            found=f"more than {most_bytes} bytes",
            expected=f"at most {most_bytes} bytes",
        ) from None
