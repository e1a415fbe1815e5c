"""Tiered buckets on the command line: ``ls``, ``cat``, ``verify``, ``export`` by folder and URL."""

from __future__ import annotations

import json
import re
import shutil

import pytest

pytest.importorskip("Crypto")
pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

import segstore
from segstore import cli
from tests.kits.golden_bucket import BucketCase
from tests.kits.s3_server import BUCKET, served


@pytest.fixture(autouse=True)
def spool(tmp_path, monkeypatch):
    """A spool of this test alone."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def bucket(packed_buckets, tmp_path):
    """A copy of an encrypted and compressed bucket beside its keys."""
    case = packed_buckets / "compressed-encrypted"
    shutil.copytree(case / "bucket" / "team a", tmp_path / "bucket")
    shutil.copytree(case / "keys", tmp_path / "keys")
    return tmp_path / "bucket"


def run(capfdbinary, *arguments):
    code = cli.main([str(one) for one in arguments])
    captured = capfdbinary.readouterr()
    return code, captured.out.decode(errors="replace"), captured.err.decode()


def with_keys(bucket):
    return ("--keys", bucket.parent / "keys")


def offsets_of(text):
    return [int(line) for line in text.splitlines()]


def first_object(bucket, partition, suffix):
    return min(path for path in bucket.rglob(f"*.{suffix}") if path.parent.name == str(partition))


def flip(path, position=None):
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if position is None else position] ^= 1
    path.write_bytes(data)


def test_ls_lists_the_partitions(bucket, capfdbinary):
    """[SEL-9] [SEL-10] Where a log begins and ends is what `open_bucket` says."""
    code, out, err = run(capfdbinary, "ls", bucket, *with_keys(bucket), "--json")
    rows = [json.loads(line) for line in out.splitlines()]

    assert (code, err) == (0, "")
    assert [(one["topic"], one["partition"]) for one in rows] == [("epochs", 0), ("epochs", 1)]
    assert [(one["log_start_offset"], one["log_end_offset"]) for one in rows] == [
        (164, 517),
        (140, 569),
    ]
    assert [one["path"] for one in rows] == [f"{bucket}/epochs-0", f"{bucket}/epochs-1"]
    assert {one["policy"] for one in rows} == {"?"}
    assert [one["segments"] for one in rows] == [4, 8]


def test_ls_takes_one_partition_or_a_topic(bucket, capfdbinary):
    for arguments in ((bucket / "epochs-1",), (f"{bucket}/epochs-1/",)):
        code, out, _ = run(capfdbinary, "ls", *arguments, *with_keys(bucket))
        assert code == 0
        assert [line.split()[:4] for line in out.splitlines()[1:]] == [
            ["epochs", "1", "140", "569"]
        ]
    code, out, err = run(capfdbinary, "ls", bucket, "-t", "absent")
    assert (code, out) == (2, "")
    assert "there is no topic 'absent' in the bucket" in err


@pytest.mark.parametrize("partition", ["", "/0"])
def test_a_folder_in_the_bucket_names_the_bucket(bucket, capfdbinary, partition):
    """[BKT-2] The folder of a topic, or of a partition, is one too low."""
    (topic,) = bucket.iterdir()
    code, out, err = run(capfdbinary, "ls", f"{topic}{partition}", *with_keys(bucket))

    assert (code, out) == (2, "")
    assert f"this is a part of one topic, and the bucket is {bucket} (found" in err


def test_ls_says_what_is_left_out(packed_buckets, capfdbinary):
    """[BKT-8] [BKT-9] No finding: copies and deletions end that way."""
    case = BucketCase(packed_buckets / "leftovers")
    code, out, err = run(capfdbinary, "ls", case.directory / "bucket")

    assert code == 0
    assert len(out.splitlines()) == 3
    assert "orders-0: left out: " in err
    assert "a deletion that was not finished" in err
    assert "an unfinished copy" in err


def test_ls_goes_on_after_a_partition_that_cannot_be_read(bucket, capfdbinary):
    newest = max(path for path in bucket.rglob("*.indexes") if path.parent.name == "0")
    newest.write_bytes(bytes(newest.stat().st_size))
    code, out, err = run(capfdbinary, "ls", bucket, *with_keys(bucket))

    assert code == 1
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["1"]
    assert newest.name in err


@pytest.mark.parametrize("arguments", [("epochs-0",), (".", "-t", "epochs", "-p", "0")])
def test_cat_prints_the_records(bucket, capfdbinary, arguments):
    path, *chosen = arguments
    options = (*chosen, *with_keys(bucket), "-f", "%o\n")
    code, out, err = run(capfdbinary, "cat", bucket / path, *options)
    with segstore.open_bucket(bucket, keys=bucket.parent / "keys").open("epochs", 0) as log:
        expected = [record.offset for record in log]

    assert (code, err) == (0, "")
    assert offsets_of(out) == expected
    _, out, err = run(capfdbinary, "cat", bucket / path, *options, "-o", "-2", "-e")
    assert offsets_of(out) == expected[-2:]
    assert err == "% Reached end of topic epochs [0] at offset 517\n"


def test_cat_of_a_topic_prints_all_partitions(bucket, capfdbinary):
    code, out, _ = run(capfdbinary, "cat", bucket, "-t", "epochs", *with_keys(bucket), "-f", "%p\n")

    assert code == 0
    assert (out.count("0"), out.count("1")) == (353, 429)


def test_keys_come_from_the_environment(bucket, capfdbinary, monkeypatch):
    monkeypatch.setenv("SEGSTORE_TIERED_KEYS", str(bucket.parent / "keys"))
    code, out, _ = run(capfdbinary, "cat", bucket / "epochs-0", "-f", "%o\n", "-c", "3")

    assert (code, offsets_of(out)) == (0, [164, 165, 166])


def test_verify_counts_segments_that_no_read_needs(packed_buckets, capfdbinary):
    """A copy that ended twice: both are checked."""
    path = packed_buckets / "leftovers" / "bucket" / "orders-0"
    code, out, err = run(capfdbinary, "verify", path)

    assert (code, err) == (0, "")
    assert "clean; offsets 157 to 193, 2 segments, 20 batches, 72 records, 31844 bytes" in out
    assert out.splitlines()[0].endswith("; no read needs 1 segment")


@pytest.mark.parametrize("suffix", ["log", "indexes", "rsm-manifest"])
def test_verify_names_a_changed_object_and_hides_no_partition(bucket, capfdbinary, suffix):
    """[DUR-144] [RDB-5]."""
    damaged = first_object(bucket, 0, suffix)
    flip(damaged, 0 if suffix == "rsm-manifest" else None)
    code, out, _ = run(capfdbinary, "verify", bucket, *with_keys(bucket))

    assert code == 1
    assert f"{bucket}/epochs-0: 1 problem; offsets" in out
    assert damaged.name.partition(".")[0] in out
    assert f"{bucket}/epochs-1: clean; offsets 140 to 569, 8 segments" in out


def test_verify_checks_the_batches_themselves(packed_buckets, tmp_path, capfdbinary):
    """[RDB-4] Where nothing is encrypted, no cipher sees a changed byte: the CRCs do."""
    shutil.copytree(packed_buckets / "leftovers" / "bucket", tmp_path / "bucket")
    path = first_object(tmp_path / "bucket", 1, "log")
    flip(path, path.stat().st_size - 1)
    code, out, _ = run(capfdbinary, "verify", tmp_path / "bucket")

    assert code == 1
    assert path.name in out
    assert "these bytes are not the batch that was written" in out
    assert "orders-0: clean" in out


def test_verify_reports_a_gap(bucket, capfdbinary):
    """[SEL-8]."""
    names = sorted(path for path in bucket.rglob("*.log") if path.parent.name == "0")
    names[1].unlink()
    first, following = (int(path.name[:20]) for path in names[1:3])
    code, out, _ = run(capfdbinary, "verify", bucket / "epochs-0", *with_keys(bucket))

    assert code == 1
    assert f"no segment holds the records of offsets {first} to {following - 1}" in out
    assert "note: " in out


@pytest.fixture
def with_gap(bucket):
    """The bucket without the second segment of a partition, and the offsets that are missing."""
    names = sorted(path for path in bucket.rglob("*.log") if path.parent.name == "0")
    names[1].unlink()
    first, following = (int(path.name[:20]) for path in names[1:3])
    return bucket, first, following


def test_commands_read_over_a_gap_on_request(with_gap, capfdbinary, tmp_path):
    """[SEL-8] Without the option, the error names it; with it, what is missing is told."""
    bucket, first, following = with_gap
    expected = [*range(164, first), *range(following, 517)]
    file = tmp_path / "epochs-0.parquet"
    for command in (
        ("cat", bucket / "epochs-0", "-f", "%o\n"),
        ("export", bucket / "epochs-0", file),
        ("export", bucket, tmp_path / "folder", "-t", "epochs", "-p", "0"),
        ("ls", bucket / "epochs-0", "--json"),
    ):
        (tmp_path / "folder").mkdir(exist_ok=True)
        code, out, err = run(capfdbinary, *command, *with_keys(bucket))
        assert (code, out) == (1, "")
        assert "; --allow-gaps reads what is there (found" in err
        assert f"from offset {first} to {following - 1}" in err

        code, out, err = run(capfdbinary, *command, *with_keys(bucket), "--allow-gaps")
        assert code == 0
        if command[0] == "cat":
            assert offsets_of(out) == expected
        if command[0] != "export":
            assert f"offsets {first} to {following - 1}" in err
    offsets = pq.read_table(file)["offset"].to_pylist()
    assert offsets == expected
    assert [*(tmp_path / "folder").rglob("*.parquet")]


def test_deleted_records_are_read_on_request(bucket, capfdbinary):
    """[SEL-9] The same spool serves both."""
    options = (bucket / "epochs-0", *with_keys(bucket), "-f", "%o\n")
    usual = run(capfdbinary, "cat", *options)
    below = run(capfdbinary, "cat", *options, "--below-log-start")
    keys = bucket.parent / "keys"
    with segstore.open_bucket(bucket, keys=keys, below_log_start=True).open("epochs", 0) as log:
        expected = [record.offset for record in log]

    assert offsets_of(usual[1]) == [one for one in expected if one >= 164]
    assert (below[0], offsets_of(below[1])) == (0, expected)


def test_a_restore_of_a_gap_says_what_reads_it(with_gap, capfdbinary, tmp_path):
    """[SEL-8] A broker's log cannot have it."""
    bucket, first, _ = with_gap
    code, _, err = run(capfdbinary, "restore-bucket", bucket, tmp_path / "data", *with_keys(bucket))

    assert code == 1
    assert "segstore cat --allow-gaps" in err
    assert f"from offset {first} to " in err


def test_verify_without_the_key_says_which(bucket, capfdbinary):
    code, out, _ = run(capfdbinary, "verify", bucket / "epochs-0", "--json")

    assert code == 1
    assert "'k1'" in json.loads(out)["problems"][0]
    assert "--keys" in json.loads(out)["problems"][0]


def test_export_writes_what_import_restores(bucket, capfdbinary, tmp_path):
    target = tmp_path / "parquet"
    options = ("-t", "epochs", target, *with_keys(bucket), "--verify")
    code, out, _ = run(capfdbinary, "export", bucket, *options)
    again = run(capfdbinary, "export", bucket, *options)

    assert code == 0
    assert len(out.splitlines()) == len(list(target.iterdir())) == 2
    assert again[2] == f"segstore: {target} holds all records already\n"
    segstore.import_parquet(target, tmp_path / "data")
    opened = segstore.open_bucket(bucket, keys=bucket.parent / "keys")
    for number in (0, 1):
        with (
            opened.open("epochs", number) as log,
            segstore.open(tmp_path / "data" / f"epochs-{number}", read_only=True) as restored,
        ):
            assert [*restored.scan()] == [*log.scan()]


def test_export_writes_one_partition_to_a_file(bucket, capfdbinary, tmp_path):
    target = tmp_path / "epochs-1.parquet"
    code, out, _ = run(capfdbinary, "export", bucket / "epochs-1", target, *with_keys(bucket))

    assert code == 0
    assert out.startswith(f"{target}: 429 records, offsets 140 to 569")


def test_a_bucket_in_s3_is_read_by_the_same_commands(bucket, capfdbinary, monkeypatch):
    pytest.importorskip("obstore")
    with served() as store:
        store.put(bucket, "tier")
        for name, value in store.settings.items():
            monkeypatch.setenv(f"AWS_{name.removeprefix('aws_').upper()}", value)
        url = f"s3://{BUCKET}/tier"
        listed = run(capfdbinary, "ls", url, *with_keys(bucket))
        printed = run(capfdbinary, "cat", f"{url}/epochs-0", *with_keys(bucket), "-f", "%o\n")
        verified = run(capfdbinary, "verify", f"{url}/", *with_keys(bucket))
        nothing = run(capfdbinary, "ls", f"{url}/epochs-0/more")

    assert listed[0] == printed[0] == verified[0] == 0
    assert listed[1].splitlines()[1].split()[:4] == ["epochs", "0", "164", "517"]
    assert len(offsets_of(printed[1])) == 353
    assert verified[1].count("clean") == 2
    assert nothing[0] == 2
    assert "is no tiered bucket" in nothing[2]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("cat", "bucket"),
            "is a bucket of 2 partitions: name one, as in .*/epochs-0, or -t epochs",
        ),
        (("cat", "bucket", "-t", "absent"), "there is no topic 'absent' in the bucket"),
        (("cat", "bucket", "-t", "epochs", "-p", "7"), "there is no partition epochs-7"),
        (
            ("cat", "bucket/epochs-0", "-t", "epochs"),
            "-t and -p go with the path of a whole bucket",
        ),
        (("cat", "bucket/epochs-7"), "epochs-7"),
        (
            ("ls", "keys", "--keys", "keys"),
            "--keys: an option for a tiered bucket, and .*keys is",
        ),
        (
            ("cat", "keys", "--allow-gaps", "--below-log-start", "--remote-log-metadata", "keys"),
            "--allow-gaps and --below-log-start and --remote-log-metadata: an option for a tiered",
        ),
        (("ls", "bucket", "--remote-log-metadata", "keys"), "__remote_log_metadata"),
        (("ls", "bucket", "--keys", "absent"), "there is no such folder of keys"),
        (("export", "bucket", "-t", "epochs", "x.parquet"), "the topic has 2 partitions"),
    ],
)
def test_what_does_not_fit_is_refused(bucket, capfdbinary, monkeypatch, arguments, text):
    monkeypatch.chdir(bucket.parent)
    code, out, err = run(capfdbinary, *arguments)

    assert (code, out) == (2, "")
    assert re.search(text, err)


def test_a_prefix_without_a_slash_is_an_option(bucket, capfdbinary):
    """[BKT-2] [BKT-4]."""
    (folder,) = bucket.iterdir()
    folder.rename(bucket / f"tier-{folder.name}")
    options = (*with_keys(bucket), "--key-prefix", "tier-", "-f", "%o\n")
    code, out, _ = run(capfdbinary, "cat", bucket / "epochs-0", *options)

    assert code == 0
    assert len(offsets_of(out)) == 353


def test_no_message_has_a_path_of_the_spool(bucket, capfdbinary):
    """What is said names the bucket; the folder of the open log is gone by then."""
    flip(first_object(bucket, 1, "indexes"))
    out = "".join(
        "".join(run(capfdbinary, *command, *with_keys(bucket))[1:])
        for command in (
            ("ls", bucket),
            ("verify", bucket),
            ("cat", bucket / "epochs-1"),
            ("cat", bucket / "epochs-0", "-o", "9999"),
        )
    )
    assert "segstore-spool" not in out
    assert "PRIVATE KEY" not in out


def test_an_export_that_lacks_a_partition_says_so(bucket, capfdbinary, tmp_path):
    """[DUR-144] The bad one keeps no other, and the command fails."""
    for path in bucket.rglob("0/*.rsm-manifest"):
        flip(path, 0)
    command = ("export", bucket, tmp_path / "out", "-t", "epochs", *with_keys(bucket))
    code, out, err = run(capfdbinary, *command)
    assert code != 0
    assert out.startswith(f"{tmp_path}/out/epochs-1-")
    assert "the export is not complete: of 2 partitions it lacks 0" in err
    assert run(capfdbinary, *command, "-p", "1")[0] == 0


def test_an_export_to_what_is_no_folder_ends_at_once(bucket, capfdbinary, tmp_path):
    (tmp_path / "out").touch()
    command = ("export", bucket, tmp_path / "out", "-t", "epochs", *with_keys(bucket))
    code, out, err = run(capfdbinary, *command)
    assert (code != 0, out) == (True, "")
    assert "not complete" not in err
