"""Private RSA keys by their ids, with which the data keys of tiered segments are unwrapped [ENC].

A ring holds where the keys are, not the keys: it can be pickled for another process, which reads
the same files or variables there. A key is read when the first segment needs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore.arguments import refuse_pickle
from segstore.errors import (
    ArgumentTypeError,
    EncryptionKeyError,
    IllegalArgumentError,
    LimitExceededError,
    LogNotFoundError,
    LogPermissionError,
    ReadIOError,
    SegstoreError,
)
from segstore.remote.tiered.chunk_cipher import DATA_KEY_BYTES, ChunkCipher

if TYPE_CHECKING:
    from typing import NoReturn

KEYS_VARIABLE: Final = "SEGSTORE_TIERED_KEYS"
"""Folder of keys, or ``id=file,id=file``; used when no keys are given."""
PRIVATE_KEY_ENDINGS: Final = (".private.pem", ".pem")
VARIABLE: Final = "env:"
MAX_PEM_BYTES: Final = 64 * 1024
MAX_MODULUS_BITS: Final = 16384
MOST_SHOWN: Final = 80
MAX_PLACE_CHARACTERS: Final = 4096
"""As ``PATH_MAX``."""
_CONTROL: Final = re.compile(r"[\0-\x1f]")
_KEY_BODY: Final = re.compile(r"[A-Za-z0-9+/=\\ ]{100,}")
"""The text of a PEM file between its first and last line, its line breaks lost or escaped."""

_PUBLIC_ENDING: Final = ".public.pem"


class Encryption(NamedTuple):
    """What the manifest of an encrypted segment says [ENC-2].

    Attributes
    ----------
    key_id : str
        Of the RSA key pair that was active when the segment was copied.
    wrapped_data_key : bytes
        The AES key, encrypted for that pair.
    aad : bytes
        Additional authenticated data of every chunk, shape ``(32,)``.
    """

    key_id: str
    wrapped_data_key: bytes
    aad: bytes


class KeyRing:
    """The private keys that a reader has.

    Parameters
    ----------
    keys : path, mapping of str to path, or None
        A folder with files ``<key id>.private.pem`` or ``<key id>.pem``. Or the PEM file of each
        key id; ``"env:NAME"`` takes the text of the file from that environment variable. None:
        the environment variable ``SEGSTORE_TIERED_KEYS``, a folder or ``id=file,id=file``.

    Raises
    ------
    LogNotFoundError
        There is no such folder.
    IllegalArgumentError
        The variable is neither, two files of the folder have one key id, or a key itself was given;
        what was given is not shown then.
    ArgumentTypeError
        Neither a path nor a mapping, or one of something else.
    """

    def __init__(self, keys: str | os.PathLike[str] | Mapping[str, Any] | None = None) -> None:
        if keys is None:
            keys = _from_environment()
        if not isinstance(keys, Mapping):
            keys = _in_folder(Path(_checked_place(keys, "the folder of keys")))
        for key_id in keys:
            _refuse_key_text(key_id, "a key id")
        self._places = {key_id: absolute_place(place) for key_id, place in keys.items()}
        self._private_keys: dict[str, _PrivateKey] = {}

    @property
    def key_ids(self) -> list[str]:
        """The ids of the keys, sorted."""
        return sorted(self._places)

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self.key_ids) or 'no keys'})"

    def __getstate__(self) -> dict[str, Any]:
        return {"_places": self._places, "_private_keys": {}}

    def cipher(self, encryption: Encryption, file: str) -> ChunkCipher:
        """Unwrap the data key of a segment [ENC-4, ENC-7].

        Parameters
        ----------
        encryption : Encryption
            From the manifest.
        file : str
            The manifest, for the error.

        Raises
        ------
        EncryptionKeyError
            The ring has no key of this id, or this key did not wrap the data key.
        ImportError
            ``segstore[tiered]`` is not installed.
        IllegalArgumentError, LimitExceededError
            The file of the key holds no private RSA key.
        LogNotFoundError, LogPermissionError, ReadIOError
            It cannot be read.
        """
        if find_spec("Crypto") is None:
            message = (
                f"{file} is encrypted, which needs pycryptodome: pip install 'segstore[tiered]'"
            )
            raise ImportError(message)
        place, shown = self._places.get(encryption.key_id), repr(encryption.key_id)[:MOST_SHOWN]
        if place is None:
            raise EncryptionKeyError(
                "the segment is encrypted with a key that was not given",
                file=file,
                found=f"key id {shown}",
                expected=f"one of {', '.join(map(repr, self.key_ids))}"
                if self._places
                else f"keys, by the argument keys, --keys or the variable {KEYS_VARIABLE}",
            )
        key = self._private_keys.get(encryption.key_id)
        if key is None:
            key = self._private_keys[encryption.key_id] = _PrivateKey(_pem(place), place)
        data_key = key.unwrap(encryption.wrapped_data_key)
        if data_key is None or len(data_key) != DATA_KEY_BYTES:
            raise EncryptionKeyError(
                "the private key does not fit the data key of the segment: it is another pair's,"
                " or the manifest was changed",
                file=file,
                found=f"key id {shown}, {len(encryption.wrapped_data_key)} bytes",
                expected=f"{DATA_KEY_BYTES} bytes, wrapped for the public key of {place}",
            )
        return ChunkCipher(data_key, encryption.aad)


class _PrivateKey:
    """One RSA key: OAEP with SHA3-512, in MGF1 too [ENC-4, ENC-5]."""

    __slots__ = ("_modulus_bytes", "_oaep")

    def __init__(self, pem: bytes, place: str) -> None:
        from Crypto.Cipher import PKCS1_OAEP
        from Crypto.Hash import SHA3_512
        from Crypto.PublicKey import RSA

        try:
            key = RSA.import_key(pem)
        except (ValueError, IndexError, TypeError):  # their texts may hold what was read
            raise _no_key(place, f"{len(pem)} bytes of something else") from None
        if not key.has_private():
            raise _no_key(place, "a public key")
        if key.size_in_bits() > MAX_MODULUS_BITS:
            raise _no_key(place, f"a key of {key.size_in_bits()} bits")
        self._modulus_bytes = key.size_in_bytes()
        hash_algorithm: Any = SHA3_512
        self._oaep = PKCS1_OAEP.new(key, hashAlgo=hash_algorithm)

    def __repr__(self) -> str:
        return "_PrivateKey(not shown)"

    def __reduce__(self) -> NoReturn:
        refuse_pickle("a private key", "give it the key files")

    def unwrap(self, wrapped: bytes) -> bytes | None:
        """Return what was wrapped, None where this key was not used for it."""
        if len(wrapped) != self._modulus_bytes:
            return None
        try:
            return self._oaep.decrypt(wrapped)
        except (ValueError, TypeError):
            return None


def absolute_place(place: str | os.PathLike[str]) -> str:
    """Return where a key is, as a process with another working directory finds it."""
    text = _checked_place(place, "the file of a key")
    return text if text.startswith(VARIABLE) else str(Path(text).absolute())


def places_of_keys(text: str, what: str) -> str | dict[str, str]:
    """Return what a user wrote in one line: a folder, or ``id=file,id=file``.

    Parameters
    ----------
    text : str
        A file may be ``env:NAME``.
    what : str
        Where it was written, for the error; the text is not shown: it may be a key.

    Raises
    ------
    IllegalArgumentError
        It is neither.
    """
    pairs = [pair.partition("=") for pair in text.split(",")] if "=" in text else []
    if "-----" in text or not all(key_id and place for key_id, _, place in pairs):
        raise IllegalArgumentError(
            f"{what} cannot be read",
            found=f"{len(text)} characters, which are not shown",
            expected="a folder, or id=file,id=file",
        )
    for place in (text, *(place.strip() for _, _, place in pairs)):
        _checked_place(place, what)
    return {key_id.strip(): place.strip() for key_id, _, place in pairs} or text


def _checked_place(place: object, what: str) -> str:
    """Return the text of a path; refuse what may be a key, before anything shows or keeps it."""
    text = _refuse_key_text(os.fspath(place) if isinstance(place, os.PathLike) else place, what)
    body = text.removeprefix(VARIABLE)
    if _KEY_BODY.fullmatch(body) and not os.path.lexists(body):
        raise _key_itself(what, text)
    return text


def _refuse_key_text(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise ArgumentTypeError(
            f"{what} is a text or a path, not the key itself",
            found=type(text).__name__,
            expected="str or os.PathLike of str",
        )
    if "-----" in text or len(text) > MAX_PLACE_CHARACTERS or _CONTROL.search(text):
        raise _key_itself(what, text)
    return text


def _key_itself(what: str, text: str) -> IllegalArgumentError:
    return IllegalArgumentError(
        f"{what} looks like a key itself",
        found=f"{len(text)} characters, which are not shown",
        expected="a path, or env:NAME",
    )


def _from_environment() -> str | dict[str, str]:
    text = os.environ.get(KEYS_VARIABLE, "")
    return places_of_keys(text, f"the environment variable {KEYS_VARIABLE}") if text else {}


def _in_folder(folder: Path) -> dict[str, str]:
    try:
        names = sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        raise LogNotFoundError(
            "there is no such folder of keys",
            file=str(folder),
            found="no folder",
            expected="a folder with files <key id>.private.pem",
        ) from None
    except OSError as error:
        raise _unreadable(str(folder), error) from None
    found: dict[str, str] = {}
    for name in names:
        ending = next((one for one in PRIVATE_KEY_ENDINGS if name.endswith(one)), "")
        key_id = name.removesuffix(ending)
        if not ending or not key_id or name.endswith(_PUBLIC_ENDING):
            continue
        place = str(folder / name)
        if key_id in found:
            raise IllegalArgumentError(
                "two files of the folder have one key id",
                file=place,
                found=f"also {found[key_id]}",
                expected="one file for each key id",
            )
        found[key_id] = place
    return found


def _pem(place: str) -> bytes:
    if place.startswith(VARIABLE):
        name = place.removeprefix(VARIABLE)
        pem = os.environb.get(os.fsencode(name))
        if pem is None:
            raise LogNotFoundError(
                "the environment variable of a private key is not set",
                file=place,
                found="no value",
                expected="the text of a PEM file",
            )
    else:
        try:
            with Path(place).open("rb") as stream:
                pem = stream.read(MAX_PEM_BYTES + 1)
        except OSError as error:
            raise _unreadable(place, error) from None
    if len(pem) > MAX_PEM_BYTES:
        raise LimitExceededError(
            "the file of a private key is too large",
            file=place,
            found=f"more than {MAX_PEM_BYTES} bytes",
            expected=f"at most {MAX_PEM_BYTES} bytes",
        )
    return pem


def _no_key(place: str, found: str) -> IllegalArgumentError:
    return IllegalArgumentError(
        "the file holds no private RSA key that can be used",
        file=place,
        found=found,
        expected="a PEM file, BEGIN PRIVATE KEY, without a password",
    )


def _unreadable(place: str, error: OSError) -> SegstoreError:
    kinds = {FileNotFoundError: LogNotFoundError, PermissionError: LogPermissionError}
    kind: type[SegstoreError] = kinds.get(type(error), ReadIOError)
    return kind(
        f"the private keys cannot be read: {error.strerror}", file=place, os_error=error.errno
    )
