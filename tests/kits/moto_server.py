"""An S3 of somebody else, on this machine: moto answers what a correct store answers."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.kits.s3_server import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class MotoStore:
    """A running server.

    Attributes
    ----------
    settings : dict
        For ``segstore.open_bucket`` and the like.
    """

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.settings = {**SETTINGS, "endpoint": endpoint, "timeout": "30s"}
        self._there: set[str] = set()
        self._client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=SETTINGS["access_key_id"],
            aws_secret_access_key=SETTINGS["secret_access_key"],
            region_name=SETTINGS["region"],
        )

    def make(self, bucket: str) -> str:
        """Make an empty bucket; return its URL."""
        self._client.create_bucket(Bucket=bucket)
        return f"s3://{bucket}"

    def keys(self, bucket: str) -> list[str]:
        """Return the keys of what is in a bucket."""
        listed = self._client.list_objects_v2(Bucket=bucket)
        return [one["Key"] for one in listed.get("Contents", ())]

    def put_once(self, directory: Path, bucket: str) -> str:
        """Put what is in *directory* into a new bucket, unless it is there; return its URL."""
        if bucket in self._there:
            return f"s3://{bucket}"
        self._there.add(bucket)
        self.make(bucket)
        for file in sorted(directory.rglob("*")):
            if file.is_file():
                key = file.relative_to(directory).as_posix()
                self._client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes())
        return f"s3://{bucket}"


@contextmanager
def moto_store() -> Iterator[MotoStore]:
    """Run the server while the block lasts."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield MotoStore(f"http://{host}:{port}")
    finally:
        server.stop()
