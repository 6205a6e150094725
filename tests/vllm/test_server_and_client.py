"""The client and the server commands against real vLLM: what the stand-in's dialect was modelled on."""

import asyncio
import json

import pytest

from solarjax.replay.client import Client, Sampling
from solarjax.replay.errors import ContextTooLong, ModelNotFound
from tests.vllm.conftest import MODEL, solarjax_vllm

pytestmark = pytest.mark.vllm
LIMITS = {"timeout_s": 300.0, "first_byte_s": 300.0}


def ask(url, *prompts, model=MODEL, sampling=None, one_by_one=False):
    """Answers to the prompts, each one user message; together, or one after the other."""
    sampling = sampling or Sampling(max_tokens=8)

    async def body():
        async with Client(url, model, **LIMITS) as client:
            calls = [client.chat([{"role": "user", "content": prompt}], sampling) for prompt in prompts]
            return [await call for call in calls] if one_by_one else await asyncio.gather(*calls)

    return asyncio.run(body())


def test_a_repeated_prefix_is_taken_from_the_cache(vllm, fresh_words):
    cold, warm = ask(vllm.url, *(f"{fresh_words} {q}" for q in ("Which box?", "How many items?")), one_by_one=True)
    # The chat template puts a system message first; earlier tests may have left one block of it.
    assert cold.cached_tokens <= 32 and cold.prompt_tokens > 160
    assert warm.cached_tokens >= 128 and warm.cached_tokens % 32 == 0
    assert warm.cached_tokens < warm.prompt_tokens
    for answer in (cold, warm):
        assert answer.attempts == 1 and 1 <= answer.completion_tokens <= 8
        assert answer.finish_reason == ("length" if answer.completion_tokens == 8 else "stop")
        assert 0 < answer.ttft_s <= answer.total_s and answer.total_s >= answer.ttft_s + sum(answer.itl_s)
        assert len(answer.itl_s) <= answer.completion_tokens - 1


def test_the_model_answers_from_the_prompt(vllm):
    """The chat template and the weights are right: it knows a capital, and copies a fact that it cannot know."""
    memory = 'Read the memory and copy the identifier.\n\nMemory: The current router identifier is "QX-4417".\n\n'
    recall = f"{memory}Question: What is the current router identifier?\nAnswer:"
    capital, copied = ask(vllm.url, "What is the capital of France?", recall, sampling=Sampling(max_tokens=24))
    assert "Paris" in capital.text and "QX-4417" in copied.text
    assert capital.finish_reason == "stop"


def test_text_completion_and_stop(vllm):
    async def body():
        async with Client(vllm.url, MODEL, **LIMITS) as client:
            plain = await client.complete("One, two, three, four,", Sampling(max_tokens=6))
            return plain, await client.complete("One, two, three, four,", Sampling(max_tokens=6, stop=(",",)))

    plain, stopped = asyncio.run(body())
    assert plain.text.strip().startswith("five") and plain.finish_reason == "length"
    assert stopped.text.strip() == "five" and stopped.finish_reason == "stop"


def test_what_it_serves_and_what_it_refuses(vllm):
    async def check():
        async with Client(vllm.url, MODEL) as client:
            return await client.check(), await client.models()

    version, models = asyncio.run(check())
    assert models == [MODEL] and version[0].isdigit()
    with pytest.raises(ModelNotFound, match=f"serve the model 'gpt'; it serves '{MODEL}'"):
        ask(vllm.url, "hi", model="gpt")
    with pytest.raises(ContextTooLong, match="2048"):
        ask(vllm.url, "word " * 3000)


def test_cache_events_have_their_sockets(vllm):
    assert {path.suffix for path in vllm.events.iterdir()} == {".sock"}
    assert {path.name.split(".")[1] for path in vllm.events.iterdir()} == {"events", "replay"}


def test_status_shows_it(vllm):
    shown = solarjax_vllm("status", vllm.record.name)
    assert shown.returncode == 0 and f"{vllm.record.name}  ready" in shown.stdout and vllm.url in shown.stdout


def test_a_model_that_vllm_refuses_fails_with_its_log(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "blue", "architectures": ["BlueForCausalLM"]}))
    failed = solarjax_vllm("up", "blue", "--port", "0", "--model", str(tmp_path))
    assert failed.returncode == 2 and not failed.stdout
    *shown, last = failed.stderr.splitlines()
    assert "server 'blue' ended before it answered: " in last and "ValidationError" in last
    assert any("model type `blue`" in line for line in shown), "the tail of the log is shown"
    assert solarjax_vllm("status", "blue").returncode == 1
