"""What tests of the whole command share."""

import json

import pytest

from solarjax.replay import tokenizer
from tests.replay.worlds import Words, encode


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A file of six questions; tokenizer and encoder of the small world."""
    monkeypatch.setattr(tokenizer, "load", lambda source: Words())
    monkeypatch.setattr("solarjax.cli.replay.encoder_of", lambda model, folder: encode)
    path = tmp_path / "mine.jsonl"
    rows = [{"kind": "item", "id": "a", "text": "the box is red"}]
    for i in range(6):
        rows.append({"kind": "query", "id": f"q{i}", "text": f"what is box {i}", "answer": "red", "relevant": ["a"]})
    path.write_text("\n".join(map(json.dumps, rows)))
    return path
