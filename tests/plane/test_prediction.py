"""Names of blocks and the prompts behind them."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solarjax.plane.errors import Invalid
from solarjax.plane.placement import layout
from solarjax.plane.placement.blocks import BlockHasher
from solarjax.plane.placement.prompts import PromptModel
from tests.plane.standin import BLOCK, TEMPLATE, names, write_model


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(tokens=st.lists(st.integers(0, 2**31 - 1), max_size=70), salt=st.sampled_from([None, "s", "tenantA:v1"]))
def test_names_agree_with_cbor_written_by_hand(tokens, salt):
    chain = BlockHasher("sha256_cbor", BLOCK).chain(tokens, salt)
    assert chain == names(tokens, salt) and len(chain) == len(tokens) // BLOCK


_SHARED = BlockHasher("sha256_cbor", BLOCK)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    shared=st.integers(0, 5 * BLOCK), more=st.integers(0, 2 * BLOCK), at=st.integers(0, 7 * BLOCK),
    salt=st.sampled_from([None, "s"]),
)  # fmt: skip
def test_names_taken_over_from_an_earlier_prompt_are_the_same(shared, more, at, salt):
    # One hasher for all examples, so that every prompt meets earlier ones that begin like it, or differ in one token.
    tokens = [*range(shared), *range(10_000, 10_000 + more)]
    if at < len(tokens):
        tokens[at] += 1
    assert _SHARED.chain(tokens, salt) == names(tokens, salt)


def test_a_name_covers_salt_and_everything_before_it():
    for algorithm in ("sha256_cbor", "sha256"):
        hasher = BlockHasher(algorithm, 4)
        base = hasher.chain(range(12), "one")
        assert len(set(base)) == 3 and hasher.chain(range(14), "one") == base
        assert not set(base) & set(hasher.chain(range(12), "two")) and not set(base) & set(
            hasher.chain(range(12), None)
        )
        late = hasher.chain([*range(8), 99, *range(9, 12)], "one")
        assert late[:2] == base[:2] and late[2] != base[2]
        assert not set(hasher.chain([99, *range(1, 12)], "one")) & set(base)
    assert BlockHasher("sha256", 4).chain(range(4), None) != BlockHasher("sha256_cbor", 4).chain(range(4), None)
    assert BlockHasher("sha256_cbor", 4, seed="0").chain(range(4), None) != BlockHasher("sha256_cbor", 4).chain(
        range(4), None
    )


def test_the_last_token_is_always_computed():
    hasher = BlockHasher("sha256_cbor", 4)
    assert [hasher.reusable(n) for n in (0, 1, 4, 5, 8, 9)] == [0, 0, 0, 1, 1, 2]
    for algorithm, size in (("md5", 4), ("sha256", 0)):
        with pytest.raises(Invalid):
            BlockHasher(algorithm, size)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return PromptModel(write_model(tmp_path_factory.mktemp("model")))


def test_a_conversation_is_rendered_by_the_models_template(model):
    body = {
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": "ä"}]}]
    }
    prompt = model.prompt(body)
    assert prompt.text == "<system>S</system><user>ä</user><assistant>"
    assert len(prompt.tokens) == len(prompt.text.encode()) and prompt.ends[-1] == len(prompt.text)
    assert model.prompt({"prompt": "abc"}).text == "abc"
    image = {"type": "image_url", "image_url": {"url": "x"}}
    for unknown in (
        {"messages": [{"role": "user", "content": [image]}]}, {"messages": "x"}, {"prompt": ["a"]}, {},
        {"messages": [{"role": "user", "content": "x"}], "tools": [{}]},
        {"messages": [{"role": "assistant", "tool_calls": []}]},
        {"messages": [{"role": "user", "content": "x"}], "chat_template": "{{ 1 }}"}, {"messages": [3]},
    ):  # fmt: skip
        assert model.prompt(unknown) is None


def test_a_template_cannot_reach_out_of_its_sandbox(tmp_path):
    folder = write_model(tmp_path / "m")
    evil = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": evil}))
    assert PromptModel(folder).prompt({"messages": [{"role": "user", "content": "x"}]}) is None
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ raise_exception('no') }}"}))
    assert PromptModel(folder).prompt({"messages": [{"role": "user", "content": "x"}]}) is None
    with pytest.raises(Invalid, match="tokenizer"):
        PromptModel(tmp_path / "nowhere")
    assert PromptModel(folder).fingerprint != PromptModel(write_model(tmp_path / "n")).fingerprint
    assert "assistant" in TEMPLATE


@settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30), min_size=1, max_size=4))
def test_the_end_of_each_capsule_is_found_in_tokens(model, texts):
    """Tokens are bytes here, so the end of a capsule can be counted."""
    from types import SimpleNamespace

    from solarjax.plane.placement.planner import _token_ends

    capsules = [SimpleNamespace(id=f"c{i}", version=1, text=text) for i, text in enumerate(texts)]
    made = layout.memory(capsules)
    body = layout.with_memory({"messages": [{"role": "user", "content": "Q"}]}, made.text)
    ends = _token_ends(model.prompt(body), made)
    assert list(ends) == [len(("<user>" + made.text[:end]).encode()) for end in made.ends]
