"""The memory plane in front of a real vLLM: what it predicts to be cached is cached, and what was corrected is gone.

Prompts are short (some 200 tokens) and so are the answers, because this runs on a CPU. The identifiers are drawn anew
each run; the model copies what its prompt says, so an answer shows which version it was given.
"""

import random
import time

import httpx2
import pytest

from solarjax.plane.api.app import create_app
from solarjax.plane.placement import layout
from solarjax.plane.services import build
from solarjax.plane.settings import Settings
from tests.plane import front as fronts
from tests.vllm.conftest import MODEL

TOPICS = ("refund", "shipping", "warranty", "invoice")
QUESTION = "Read the memory and copy the identifier.\n\nQuestion: What is the current {} identifier?\nAnswer:"
FILLER = "The {0} desk is open on weekdays. It answers letters about {0} matters within a week. "


def identifier(draw):
    return f"{''.join(draw.choices('ABCDEFGHKLMNPRSTUVWXYZ', k=3))}-{draw.randrange(1000, 9999)}"


def text(topic, name):
    return f'{FILLER.format(topic) * 2}The current {topic} identifier is "{name}".'


@pytest.fixture(scope="module")
def plane(vllm, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plane")
    (events,), (replay,) = vllm.events.glob("*.events.sock"), vllm.events.glob("*.replay.sock")
    node = {"name": "real", "url": vllm.url, "model": MODEL, "tokenizer": vllm.record.path, "events": f"ipc://{events}",
            "replay": f"ipc://{replay}", "topic": "kv-events"}  # fmt: skip
    settings = Settings.model_validate(
        {"database": str(folder / "plane.db"), "salt_secret_file": str(folder / "plane.salt"), "nodes": [node],
         "first_byte_seconds": 600.0, "chunk_seconds": 600.0}
    )  # fmt: skip
    services = build(settings)
    made = fronts.Front(services, create_app(services), [])
    made.http.timeout = httpx2.Timeout(600.0)
    yield made
    made.close()


def test_predictions_are_exact_and_no_corrected_version_is_ever_used(plane, vllm):
    draw = random.Random(time.time_ns())
    old, new = ({topic: identifier(draw) for topic in TOPICS} for _ in range(2))
    for topic in TOPICS:
        plane.create(topic, text(topic, old[topic]))
    rows = []

    def ask(capsules, question, stream, tokens):
        answer = plane.ask(
            question, stream=stream, headers={"X-PlaceMem-Capsules": ",".join(capsules)}, model=MODEL,
            max_tokens=tokens, temperature=0,
        )  # fmt: skip
        assert answer.status_code == 200, answer.text
        node = plane.serving.nodes[0]
        at = -1
        while at != node.log.position:  # events follow the answer by a millisecond
            at = node.log.position
            time.sleep(0.05)
        rows.append(plane.last())
        return answer if stream else answer.json()["choices"][0]["message"]["content"]

    for topic in TOPICS:
        assert old[topic] in ask([topic], QUESTION.format(topic), False, 14), "the capsule decides the answer"
    for i in range(16):
        ask(draw.sample(TOPICS, 1 + i % 3), f"Say something, number {i}.", i % 2 == 0, 1)
    epochs = {t: plane.correct(f"{t}@1", text(t, new[t])).epoch for t in TOPICS}
    after = len(rows)
    answers = [(topic, ask([topic], QUESTION.format(topic), False, 14)) for topic in TOPICS for _ in range(3)]
    assert all(new[topic] in said and old[topic] not in said for topic, said in answers), answers
    for i in range(16):
        ask(draw.sample(TOPICS, 1 + i % 3), f"Say something else, number {i}.", i % 2 == 0, 1)

    assert len(rows) == 48 and all(row.outcome == "ok" for row in rows)
    exact = [row.predicted == row.cached for row in rows]
    assert sum(exact) >= 0.95 * len(rows), [(r.predicted, r.cached, r.capsules) for r in rows]
    assert sum(row.cached for row in rows) > 0.3 * sum(row.prompt_tokens for row in rows), (
        "there was something to predict"
    )
    stale = [r for r in rows[after:] if r.epoch < max(epochs.values()) or any(c.endswith("@1") for c in r.capsules)]
    assert stale == [] and all(set(row.capsules) <= {f"{t}@2" for t in TOPICS} for row in rows[after:])

    # The control: without invalidation the old text is in the prompt, and the model repeats it.
    for topic in TOPICS[:2]:
        memory = layout.memory([plane.services.catalogue.get("one", topic, version=1)]).text
        said = [{"role": "user", "content": f"{memory}\n\n{QUESTION.format(topic)}"}]
        body = {"model": MODEL, "messages": said, "max_tokens": 14, "temperature": 0}
        answer = httpx2.post(f"{vllm.url}/v1/chat/completions", json=body, timeout=600.0, trust_env=False).json()
        content = answer["choices"][0]["message"]["content"]
        assert old[topic] in content and new[topic] not in content
