"""The language columns as lerobot declares them, and the Hugging Face features in a parquet schema.

Both are written here by hand, since `import lerobot` takes five seconds and `import datasets` one; the tests
compare them with `lerobot.datasets.language` and `datasets.Features`.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

PERSISTENT = "language_persistent"
EVENTS = "language_events"
LANGUAGE_FEATURE: dict[str, Any] = {"dtype": "language", "shape": [1], "names": None}
"""What info.json says of a language column."""


def language_types() -> dict[str, pa.ListType]:
    """The Arrow type of each language column: on every frame a list of rows.

    A row of `language_persistent` holds from its timestamp on; one of `language_events` belongs to its frame.
    """
    role = pa.field("role", pa.string(), nullable=False)
    content, style = pa.field("content", pa.string()), pa.field("style", pa.string())
    timestamp = pa.field("timestamp", pa.float32(), nullable=False)
    view = [pa.field("camera", pa.string()), pa.field("tool_calls", pa.list_(pa.json_()))]
    return {
        PERSISTENT: pa.list_(pa.struct([role, content, style, timestamp, *view])),
        EVENTS: pa.list_(pa.struct([role, content, style, *view])),
    }


def drop_fields(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """Leave fields out, and out of the Hugging Face features in the metadata."""
    metadata = dict(schema.metadata or {})
    if b"huggingface" in metadata:
        content = json.loads(metadata[b"huggingface"])
        features = content.get("info", {}).get("features") or {}
        for name in names:
            features.pop(name, None)
        metadata[b"huggingface"] = json.dumps(content).encode()
    return pa.schema([field for field in schema if field.name not in names], metadata or None)


def put_column(table: pa.Table, field: pa.Field, values: pa.ChunkedArray) -> pa.Table:
    """Append or replace a column, and its Hugging Face feature in the schema's metadata."""
    position = table.schema.get_field_index(field.name)
    metadata = _declare(table.schema.metadata, field)
    table = table.append_column(field, values) if position < 0 else table.set_column(position, field, values)
    return table.replace_schema_metadata(metadata)


def put_field(schema: pa.Schema, field: pa.Field) -> pa.Schema:
    """The schema of what `put_column` returns."""
    position = schema.get_field_index(field.name)
    metadata = _declare(schema.metadata, field)
    return (schema.append(field) if position < 0 else schema.set(position, field)).with_metadata(metadata)


def _declare(metadata: Mapping[bytes, bytes] | None, field: pa.Field) -> dict[bytes, bytes] | None:
    if not metadata or b"huggingface" not in metadata:
        return dict(metadata) if metadata else None
    content = json.loads(metadata[b"huggingface"])
    if features := content.get("info", {}).get("features"):
        features[field.name] = hugging_face_feature(field.type)
    return {**metadata, b"huggingface": json.dumps(content).encode()}


def hugging_face_feature(kind: pa.DataType) -> dict[str, Any]:
    """A column of this Arrow type as `datasets.Features.to_dict` describes it.

    Raises:
        ValueError: neither a list, a struct, JSON, a string, a boolean nor a number.
    """
    if isinstance(kind, pa.ListType):
        return {"feature": hugging_face_feature(kind.value_type), "_type": "List"}
    if isinstance(kind, pa.StructType):
        return {field.name: hugging_face_feature(field.type) for field in kind}
    if isinstance(kind, pa.JsonType):
        return {"_type": "Json"}
    if not (pa.types.is_primitive(kind) or pa.types.is_string(kind)) or pa.types.is_temporal(kind):
        raise ValueError(f"no Hugging Face feature is known for the Arrow type {kind}")
    renamed = {pa.float16(): "float16", pa.float32(): "float32", pa.float64(): "float64"}
    return {"dtype": renamed.get(kind, str(kind)), "_type": "Value"}
