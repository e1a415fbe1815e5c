"""The sections of docs/values.md, and what their programs find beside them."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).parents[2] / "docs" / "values.md").read_text(encoding="utf-8")
PIECES = {
    section.partition("\n")[0]: "".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))
    for section in PAGE.split("\n## ")
    if "```python" in section
}
LIBRARIES = {
    "Avro with a schema registry": "fastavro",
    "Protobuf": "google.protobuf",
    "MessagePack": "msgpack",
}
"""What each section needs besides the libraries of every test."""

_FIELDS = [{"name": "user", "type": "string"}, {"name": "amount", "type": "double"}]
_CURRENCY = {"name": "currency", "type": "string", "default": "USD"}
SCHEMAS = {
    number: {"type": "record", "name": "Order", "fields": fields}
    for number, fields in ((7, _FIELDS), (8, [*_FIELDS, _CURRENCY]))
}

ORDERS_PB2 = '''"""As protoc makes it; its own serialized descriptor would belong to one version."""
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

file = descriptor_pb2.FileDescriptorProto(name="orders.proto", syntax="proto3")
order = file.message_type.add(name="Order")
field = descriptor_pb2.FieldDescriptorProto
fields = [("user", field.TYPE_STRING), ("cents", field.TYPE_INT64)]
for number, (name, kind) in enumerate(fields, 1):
    order.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
pool = descriptor_pool.DescriptorPool()
pool.AddSerializedFile(file.SerializeToString())
Order = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))
'''


def expected_prints(piece: str) -> list[str]:
    """What a piece says that it prints."""
    return re.findall(r"^ *print\(.*\)  # (.*)$", piece, re.MULTILINE)


class _Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = re.fullmatch(r"/schemas/ids/(\d+)", self.path)
        body = json.dumps({"schema": json.dumps(SCHEMAS[int(found[1])])}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def schema_registry() -> Iterator[str]:
    """Serve schemas as a registry does; the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
