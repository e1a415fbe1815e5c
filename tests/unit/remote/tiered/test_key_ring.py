"""Private keys: from where they come, which one is used, and that nothing shows them."""

from __future__ import annotations

import base64
import pickle

import pytest

from segstore.errors import (
    ArgumentTypeError,
    EncryptionKeyError,
    IllegalArgumentError,
    LimitExceededError,
    LogNotFoundError,
    LogPermissionError,
)

pytest.importorskip("Crypto")

from segstore.remote.tiered import key_ring
from segstore.remote.tiered.chunk_cipher import ChunkCipher
from segstore.remote.tiered.key_ring import KEYS_VARIABLE, Encryption, KeyRing
from tests.kits.tiered_writer import Sealer, rsa_key, write_key

FILE = "bucket/a.rsm-manifest"


@pytest.fixture
def keys(tmp_path):
    """A folder with a private key and its public one."""
    write_key(tmp_path / "keys")
    public = rsa_key().public_key().export_key()
    (tmp_path / "keys" / "k1.public.pem").write_bytes(public)
    return tmp_path / "keys"


def encryption(sealer):
    fields = sealer.fields()
    key_id, _, wrapped = fields["dataKey"].partition(":")
    return Encryption(key_id, base64.b64decode(wrapped), base64.b64decode(fields["aad"]))


def opens(ring, key_id="k1"):
    """Whether the ring undoes what was sealed for that key."""
    sealer = Sealer(key_id)
    cipher = ring.cipher(encryption(sealer), FILE)
    return cipher.decrypt(sealer.seal(b"plain"), "log", 0) == b"plain"


def test_keys_come_from_a_folder_files_or_the_environment(keys, monkeypatch):
    """[ENC-6] [ENC-7] Private keys only; a public file beside them is no key."""
    file = keys / "k1.private.pem"
    assert KeyRing(keys).key_ids == ["k1"]
    assert opens(KeyRing(keys))
    assert opens(KeyRing(str(keys)))
    assert opens(KeyRing({"k2": file}), "k2")

    monkeypatch.setenv("A_KEY", file.read_text())
    assert opens(KeyRing({"k1": "env:A_KEY"}))

    monkeypatch.setenv(KEYS_VARIABLE, str(keys))
    assert opens(KeyRing())
    monkeypatch.setenv(KEYS_VARIABLE, f"k1={file},k2=env:A_KEY")
    assert KeyRing().key_ids == ["k1", "k2"]
    assert opens(KeyRing(), "k2")


def test_a_ring_goes_to_another_process_without_its_keys(keys):
    """Its pickle has the places; the key is read again there."""
    ring = KeyRing(keys)
    assert opens(ring)
    sent = pickle.dumps(ring)

    secret = rsa_key()
    for number in (secret.d, secret.p, secret.q):
        assert number.to_bytes((number.bit_length() + 7) // 8) not in sent
        assert str(number).encode() not in sent
    assert b"BEGIN" not in sent
    assert opens(pickle.loads(sent))


def test_nothing_shows_or_takes_away_a_key(keys):
    """Neither what unwraps nor what decrypts can be pickled, and their texts hold no key."""
    sealer = Sealer("k1")
    ring = KeyRing(keys)
    cipher = ring.cipher(encryption(sealer), FILE)
    private = ring._private_keys["k1"]

    assert repr(ring) == "KeyRing(k1)"
    assert repr(cipher) == "ChunkCipher(key not shown)"
    assert repr(private) == "_PrivateKey(not shown)"
    for one in (cipher, private):
        assert not hasattr(one, "__dict__")
        with pytest.raises(ArgumentTypeError, match="cannot be pickled"):
            pickle.dumps(one)


def test_a_key_that_was_not_given_is_named(keys):
    """[ENC-7] [RDB-5] The id of the key, and those that are there."""
    with pytest.raises(EncryptionKeyError, match=r"a\.rsm-manifest.*'k9'.*one of 'k1'"):
        KeyRing(keys).cipher(encryption(Sealer("k9")), FILE)
    with pytest.raises(EncryptionKeyError, match=KEYS_VARIABLE):
        KeyRing({}).cipher(encryption(Sealer("k9")), FILE)


@pytest.mark.parametrize("change", ["bit", "short", "empty", "plain"])
def test_a_data_key_that_does_not_open_is_refused(keys, change):
    """[ENC-4] Another pair's key, or a manifest that was changed."""
    good = encryption(Sealer("k1"))
    wrapped = {
        "bit": bytes([good.wrapped_data_key[0] ^ 1]) + good.wrapped_data_key[1:],
        "short": good.wrapped_data_key[:-1],
        "empty": b"",
        "plain": bytes(256),
    }[change]

    with pytest.raises(EncryptionKeyError, match="does not fit the data key"):
        KeyRing(keys).cipher(good._replace(wrapped_data_key=wrapped), FILE)


def test_a_wrapped_key_of_another_length_is_no_aes_key(keys):
    """[ENC-4] The plain text is 32 bytes."""
    sealer = Sealer("k1")
    sealer.key = bytes(16)
    with pytest.raises(EncryptionKeyError):
        KeyRing(keys).cipher(encryption(sealer), FILE)


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"a-secret-that-is-no-key",
        b"-----BEGIN PRIVATE KEY-----\nYS1zZWNyZXQ=\n-----END PRIVATE KEY-----\n",
        "public",
        "password",
    ],
)
def test_a_file_without_a_private_key_is_refused_without_its_text(tmp_path, pem):
    """[ENC-6] A public key, one with a password, or anything."""
    made = {
        "public": lambda: rsa_key().public_key().export_key(),
        "password": lambda: rsa_key().export_key(
            passphrase="a-secret", pkcs=8, protection="PBKDF2WithHMAC-SHA1AndAES128-CBC"
        ),
    }
    data = made[pem]() if isinstance(pem, str) else pem
    (tmp_path / "k1.pem").write_bytes(data)

    with pytest.raises(IllegalArgumentError, match=r"k1\.pem.*no private RSA key") as raised:
        KeyRing(tmp_path).cipher(encryption(Sealer("k1")), FILE)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_places_that_cannot_be_are_errors(tmp_path, monkeypatch):
    """The place is named."""
    sealed = encryption(Sealer("k1"))
    with pytest.raises(LogNotFoundError, match="no such folder of keys"):
        KeyRing(tmp_path / "absent")
    with pytest.raises(LogNotFoundError, match="absent"):
        KeyRing({"k1": tmp_path / "absent.pem"}).cipher(sealed, FILE)
    with pytest.raises(LogNotFoundError, match="env:NOT_SET"):
        KeyRing({"k1": "env:NOT_SET"}).cipher(sealed, FILE)
    (tmp_path / "k1.pem").write_bytes(bytes(100_000))
    with pytest.raises(LimitExceededError, match=r"k1\.pem"):
        KeyRing(tmp_path).cipher(sealed, FILE)
    (tmp_path / "k1.private.pem").write_bytes(b"")
    with pytest.raises(IllegalArgumentError, match="one key id"):
        KeyRing(tmp_path)
    monkeypatch.setenv(KEYS_VARIABLE, "k1=a-secret,=b")
    with pytest.raises(IllegalArgumentError, match="not shown") as raised:
        KeyRing()
    assert "a-secret" not in str(raised.value)


@pytest.mark.parametrize("form", ["pem", "body", "padded", "spaces", "escaped", "env", "endless"])
def test_a_key_in_place_of_its_file_is_refused_and_not_shown(form, monkeypatch):
    """A user may paste the key itself: as a folder, as a file, or in the variable."""
    pem = rsa_key().export_key(pkcs=8).decode()
    lines = pem.splitlines()[1:-1]
    text = {
        "pem": pem,
        "body": "".join(lines),
        "padded": "".join(lines).rstrip("=") + "==",
        "spaces": " ".join(lines),
        "escaped": "\\n".join(lines),
        "env": "env:" + "".join(lines),
        "endless": "a.b/" * 1025,
    }[form]
    monkeypatch.setenv(KEYS_VARIABLE, text)
    calls = [lambda: KeyRing(text), lambda: KeyRing({"k1": text}), KeyRing]
    if form in {"pem", "endless"}:
        calls.append(lambda: KeyRing({text: "k1.pem"}))
    for call in calls:
        with pytest.raises(IllegalArgumentError, match="not shown") as raised:
            call()
        shown = repr(raised.value) + str(raised.value)
        assert lines[1][:16] not in shown
        assert text[:20] not in shown


@pytest.mark.parametrize("given", [b"-----BEGIN", 7, {"k1": b"a-secret"}, {"k1": 7}, {b"k": "a"}])
def test_keys_of_another_type_are_refused(given):
    """Bytes are perhaps the key itself."""
    with pytest.raises(ArgumentTypeError, match="not the key itself") as raised:
        KeyRing(given)
    assert "secret" not in str(raised.value)


def test_a_long_path_is_a_path(tmp_path, monkeypatch):
    """Also one whose characters a key may have, if it is there."""
    folder = tmp_path / "longFolder" / ("a" * 120)
    folder.parent.mkdir()
    write_key(folder)
    monkeypatch.chdir(folder.parent)
    assert opens(KeyRing(folder.name))
    with pytest.raises(LogNotFoundError, match="keys_of_ours"):
        KeyRing(tmp_path / ("keys_of_ours" * 10))


def test_a_file_that_may_not_be_read_is_an_error(tmp_path, monkeypatch):
    """As another user's is."""

    def refuse(*_arguments):
        raise PermissionError(13, "Permission denied")

    ring = KeyRing({"k1": tmp_path / "k1.pem"})
    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(LogPermissionError, match=r"k1\.pem"):
        ring.cipher(encryption(Sealer("k1")), FILE)


def test_without_the_extra_the_error_names_it(keys, monkeypatch):
    """[ENC-5] `segstore[tiered]`."""
    ring = KeyRing(keys)
    monkeypatch.setattr(key_ring, "find_spec", lambda _name: None)
    with pytest.raises(ImportError, match=r"pip install 'segstore\[tiered\]'"):
        ring.cipher(encryption(Sealer("k1")), FILE)


def test_a_cipher_is_of_one_segment():
    """[ENC-1] [ENC-3] Another AAD does not open it."""
    sealer = Sealer("k1")
    sealed = sealer.seal(b"")

    assert len(sealed) == 28
    assert ChunkCipher(sealer.key, sealer.aad).decrypt(sealed, "log", 0) == b""
    with pytest.raises(ValueError, match=r"position 40.*changed"):
        ChunkCipher(sealer.key, bytes(32)).decrypt(sealed, "log", 40)
