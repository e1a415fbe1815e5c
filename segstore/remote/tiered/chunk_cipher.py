"""What undoes the encryption of one tiered segment: AES-256-GCM, chunk by chunk [ENC-1, ENC-3]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segstore.arguments import refuse_pickle
from segstore.errors import CorruptLogError

if TYPE_CHECKING:
    from typing import NoReturn

IV_BYTES: Final = 12
TAG_BYTES: Final = 16
OVERHEAD_BYTES: Final = IV_BYTES + TAG_BYTES
"""By how much a stored chunk is larger than the plain or compressed one."""
DATA_KEY_BYTES: Final = 32
AAD_BYTES: Final = 32


class ChunkCipher:
    """The data key of a segment; it is shown nowhere, and stays in this process.

    Parameters
    ----------
    data_key : bytes
        Shape ``(32,)``.
    aad : bytes
        Additional authenticated data of the segment, shape ``(32,)``.
    """

    __slots__ = ("_aad", "_cipher", "_data_key")

    def __init__(self, data_key: bytes, aad: bytes) -> None:
        from Crypto.Cipher import AES

        self._data_key, self._aad = data_key, aad
        self._cipher: Any = AES

    def __repr__(self) -> str:
        return "ChunkCipher(key not shown)"

    def __reduce__(self) -> NoReturn:
        refuse_pickle("ChunkCipher", "give it the key files")

    def decrypt(self, stored: bytes | memoryview, file: str, position: int) -> bytes:
        """Return what *stored* was before its encryption.

        Parameters
        ----------
        stored : bytes or memoryview
            IV, ciphertext and tag, shape ``(n,)``.
        file, position : str, int
            Object, and where in it *stored* begins, for the error.

        Raises
        ------
        CorruptLogError
            It is not what the broker has written under this key. GCM does not prove the place of a
            chunk among those of its segment [ENC-8].
        """
        view = memoryview(stored)
        if len(view) < OVERHEAD_BYTES:
            raise CorruptLogError(
                "the encrypted bytes are fewer than IV and tag: the object was cut or changed",
                file=file,
                position=position,
                found=f"{len(view)} bytes",
                expected=f"at least {OVERHEAD_BYTES} bytes",
            )
        iv, sealed, tag = view[:IV_BYTES], view[IV_BYTES:-TAG_BYTES], view[-TAG_BYTES:]
        cipher = self._cipher.new(
            self._data_key, self._cipher.MODE_GCM, nonce=bytes(iv), mac_len=TAG_BYTES
        )
        cipher.update(self._aad)
        try:
            plain: bytes = cipher.decrypt_and_verify(sealed, bytes(tag))
        except ValueError:
            raise CorruptLogError(
                "the encrypted bytes were changed, or belong to another segment",
                file=file,
                position=position,
                found=f"{len(view)} bytes with a wrong tag",
                expected="the tag that the broker wrote",
            ) from None
        return plain
