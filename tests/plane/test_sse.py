"""The splitter of an engine's stream: where the chunks are cut changes nothing, and nothing but Malformed comes out."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solarjax.plane.sidecar import sse

BOUNDED = settings(max_examples=200, deadline=None, derandomize=True, database=None)
VALUES = st.dictionaries(st.text(max_size=4), st.one_of(st.integers(), st.text(max_size=8)), max_size=3)
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def events(draw):
    """One event of whole lines with one kind of line end, and what its data is."""
    end = draw(LINE_ENDS)
    value = {"choices": [{"index": 0, "text": draw(st.text(min_size=1, max_size=12))}], "more": draw(VALUES)}
    said = json.dumps(value, indent=draw(st.sampled_from([None, 1]))).encode()
    lines = [b"data: " + line for line in said.split(b"\n")]
    before = draw(st.lists(st.sampled_from([b": comment", b"event: message", b"id: 7"]), max_size=2))
    return end.join([*before, *lines]) + end + end, value["choices"][0]["text"]


def fed(chunks):
    splitter = sse.Splitter()
    return [event for chunk in chunks for event in splitter.feed(chunk)], splitter.rest


def cut(raw, places):
    borders = sorted({0, len(raw), *(p % (len(raw) + 1) for p in places)})
    return [raw[a:b] for a, b in zip(borders, borders[1:], strict=False)]


@BOUNDED
@given(st.lists(events(), min_size=1, max_size=4), st.lists(st.integers(0, 10_000), max_size=30))
def test_any_cut_gives_the_events_that_were_written(made, places):
    raw = b"".join(event for event, _ in made)
    found, rest = fed(cut(raw, places))
    assert found == [event for event, _ in made] == fed([raw[i : i + 1] for i in range(len(raw))])[0] and rest == b""
    assert [sse.look(event).text for event in found] == [text for _, text in made]


@BOUNDED
@given(
    st.lists(st.sampled_from([b"\r", b"\n", b"data:", b" ", b"{", b"}", b'"', b"\xff", b"[DONE]", b"x"]), max_size=40),
    st.lists(st.integers(0, 10_000), max_size=20),
)
def test_garbage_is_cut_alike_and_only_ever_malformed(parts, places):
    raw = b"".join(parts)
    found, rest = fed([raw])
    assert fed(cut(raw, places)) == (found, rest) and b"".join(found) + rest == raw
    for event in [*found, rest]:
        try:
            sse.look(event)
        except sse.Malformed as error:
            assert error.status == 502


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["choices", "usage", "error", "delta", "text", "content", "index", "message"]), inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)  # fmt: skip


@BOUNDED
@given(JSON)
def test_any_json_can_be_looked_into(value):
    try:
        seen = sse.look(b"data: " + json.dumps(value).encode() + b"\n\n")
    except sse.Malformed:
        assert not isinstance(value, dict)
    else:
        assert isinstance(seen.text, str) and (seen.usage is None or isinstance(seen.usage, dict))


@pytest.mark.parametrize("size", [7, 64, 10_000])
@pytest.mark.parametrize("border", [b"", b"\n\n"])
def test_an_event_that_is_too_large_is_malformed_however_it_arrives(monkeypatch, size, border):
    monkeypatch.setattr(sse, "MAX_EVENT", 100)
    raw = b"data: " + b"x" * 200 + border
    with pytest.raises(sse.Malformed, match="larger than 100 bytes"):
        fed([raw[i : i + size] for i in range(0, len(raw), size)])
    assert len(fed([b"data: " + b"x" * 60 + b"\n\n"] * 5)[0]) == 5, "many small ones are not one large one"
