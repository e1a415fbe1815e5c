"""What is a URL, what it is called in messages, and which settings are secret."""

from __future__ import annotations

import pytest

from segstore.remote.urls import (
    is_url,
    normal_url,
    place_key,
    secrets_in,
    shown_url,
    without_secrets,
)


@pytest.mark.parametrize(
    ("path", "is_remote"),
    [
        ("s3://bucket/logs", True),
        ("S3://bucket/logs", True),
        ("dbfs:/logs", True),
        ("hdfs://host:9000/logs", True),
        ("memory://logs", True),
        ("/logs", False),
        ("logs", False),
        ("file:/logs", False),
        ("file:///logs", False),
        ("c:/logs", False),
        ("topic:logs", False),
    ],
)
def test_what_is_a_url(path, is_remote):
    assert is_url(path) == is_remote


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("dbfs:/logs/", "dbfs:///logs"),
        ("hdfs:///logs", "hdfs:///logs"),
        ("memory://logs/", "memory://logs"),
        ("s3:/bucket/logs", "s3://bucket/logs"),
        ("S3://Bucket/Logs//", "s3://Bucket/Logs"),
    ],
)
def test_one_spelling_for_each(url, normal):
    assert normal_url(url) == normal


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://id:secret@bucket/logs", "s3://id:***@bucket/logs"),
        ("https://host/logs?sig=secret", "https://host/logs?***"),
        ("https://token@host/logs", "https://***@host/logs"),
        ("sftp://user@host/logs", None),
        ("https://host/logs@2", None),
        ("abfss://container@account.dfs.core.windows.net/l", None),
    ],
)
def test_a_message_shows_no_password_and_no_query(url, shown):
    assert shown_url(url) == (shown or url)


def test_secrets_are_known_by_their_names():
    settings = {"secret_access_key": "s3cr3t", "region": "us-east-1", "sas_token": "abc"}

    assert secrets_in(settings) == ("s3cr3t",)
    assert without_secrets("with s3cr3t in us-east-1", secrets_in(settings)) == (
        "with *** in us-east-1"
    )


@pytest.mark.parametrize(
    "name", ["password", "passwd", "key_passphrase", "pwd", "client_credentials"]
)
def test_settings_of_these_names_are_secret(name):
    assert secrets_in({name: "s3cr3t"}) == ("s3cr3t",)


@pytest.mark.parametrize(
    "name", ["AWS_ENDPOINT_URL", "AWS_REGION", "AZURE_STORAGE_ACCOUNT_NAME", "HADOOP_CONF_DIR"]
)
def test_places_that_the_environment_names_are_told_apart(monkeypatch, name):
    """The store takes from there what is not among its settings."""
    url = "s3://bucket/logs"
    monkeypatch.setenv(name, "one")
    one = place_key(url, {})
    monkeypatch.setenv(name, "two")
    two = place_key(url, {})
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")

    assert one != two
    assert place_key(url, {}) == two


def test_places_are_told_apart_and_credentials_are_not():
    """New credentials find what was fetched with the old ones."""
    url = "az://container/logs"
    one = place_key(url, {"account_name": "one", "account_key": "k1"})

    assert one == place_key(url, {"account_name": "one", "account_key": "k2"})
    assert one != place_key(url, {"account_name": "two", "account_key": "k1"})
    assert one != place_key(f"{url}?version=2", {"account_name": "one"})
