"""The memory plane in front of a real vLLM: what it predicts to be cached is cached, and what was corrected is gone.

Prompts are short (some 200 tokens) and so are the answers, because this runs on a CPU. The model copies what its prompt
says, so an answer shows which version it was given.
"""

import random
import time

import httpx2
import pytest

from solarjax.plane.api.app import create_app
from solarjax.plane.placement import layout
from solarjax.plane.salts import cache_salt
from solarjax.plane.services import build
from solarjax.plane.settings import Settings
from tests.plane import front as fronts
from tests.vllm.conftest import MODEL

pytestmark = pytest.mark.vllm
TOPICS = ("refund", "shipping", "warranty", "invoice")
QUESTION = "Read the memory and copy the identifier.\n\nQuestion: What is the current {} identifier?\nAnswer:"
FILLER = "The {0} desk is open on weekdays. It answers letters about {0} matters within a week. "


def identifier(draw):
    return f"{''.join(draw.choices('ABCDEFGHKLMNPRSTUVWXYZ', k=3))}-{draw.randrange(1000, 9999)}"


def says(topic, name):
    return f'The current {topic} identifier is "{name}".'


def between(old, new, topic):
    """The answer can only be one of the two sentences.

    Sentences and not bare values: decoding is greedy, so a bare value is chosen by its first letter alone, at a place
    where this model would have begun a sentence. One prompt in eighty then named a value that it did not hold.
    """
    return {"structured_outputs": {"choice": sorted((says(topic, old[topic]), says(topic, new[topic])))}}


def text(topic, name):
    return FILLER.format(topic) * 2 + says(topic, name)


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
    draw = random.Random(44)
    old, new = ({topic: identifier(draw) for topic in TOPICS} for _ in range(2))
    for topic in TOPICS:
        plane.create(topic, text(topic, old[topic]))
    rows = []

    def ask(capsules, question, stream, tokens, **more):
        answer = plane.ask(
            question, stream=stream, headers={"X-PlaceMem-Capsules": ",".join(capsules)}, model=MODEL,
            max_tokens=tokens, temperature=0, **more,
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
    answers = [(topic, ask([topic], QUESTION.format(topic), False, 14)) for topic in TOPICS]
    assert all(new[topic] in said and old[topic] not in said for topic, said in answers), answers
    # The probe: of the old and the new value, which one does the prompt make the likelier answer?
    chosen = {topic: ask([topic], QUESTION.format(topic), False, 32, **between(old, new, topic)) for topic in TOPICS}
    assert chosen == {topic: says(topic, new[topic]) for topic in TOPICS}, (
        "with the plane every answer follows the correction"
    )
    for i in range(16):
        ask(draw.sample(TOPICS, 1 + i % 3), f"Say something else, number {i}.", i % 2 == 0, 1)

    assert len(rows) == 44 and all(row.outcome == "ok" for row in rows)
    exact = [row.predicted == row.cached for row in rows]
    assert sum(exact) >= 0.95 * len(rows), [(r.predicted, r.cached, r.capsules) for r in rows]
    assert sum(row.cached for row in rows) > 0.3 * sum(row.prompt_tokens for row in rows), (
        "there was something to predict"
    )
    stale = [r for r in rows[after:] if r.epoch < max(epochs.values()) or any(c.endswith("@1") for c in r.capsules)]
    assert stale == [] and all(set(row.capsules) <= {f"{t}@2" for t in TOPICS} for row in rows[after:])

    # The control: without invalidation the old text is in the prompt, and no answer follows the correction.
    for topic in TOPICS:
        memory = layout.memory([plane.services.catalogue.get("one", topic, version=1)]).text
        said = [{"role": "user", "content": f"{memory}\n\n{QUESTION.format(topic)}"}]
        body = {"model": MODEL, "messages": said, "max_tokens": 32, "temperature": 0, **between(old, new, topic)}
        answer = httpx2.post(f"{vllm.url}/v1/chat/completions", json=body, timeout=600.0, trust_env=False).json()
        assert answer["choices"][0]["message"]["content"] == says(topic, old[topic])


def test_a_correction_costs_a_long_prompt_its_end_only(plane, vllm):
    """Over 1,000 prompt tokens, in pairs: the plane after a correction, a transcript without it, and stale reuse.

    What an engine computes is what its first token waits for, so tokens are compared exactly and times by the bounds:
    against the transcript one far away, against reuse by a sign test.
    """
    draw = random.Random(1000)
    first, second = (f'The current pager identifier is "{identifier(draw)}".' for _ in range(2))
    handbook = " ".join(FILLER.format(f"desk-{draw.randrange(10**6)}") for _ in range(34))
    plane.create("handbook", handbook, stability="stable")
    plane.create("pager", first, stability="volatile")
    question = QUESTION.format("pager")
    spent = {"full": [], "stale": [], "prompt_only": [], "untouched": []}

    def through(name, tenant="one"):
        begin = time.monotonic()
        answer = plane.ask(
            question, tenant, headers={"X-PlaceMem-Capsules": "handbook,pager"}, model=MODEL, max_tokens=1,
            temperature=0,
        )  # fmt: skip
        count(name, answer.json(), begin)

    def direct(name, content, salt):
        body = {"model": MODEL, "messages": [{"role": "user", "content": content}], "max_tokens": 1, "temperature": 0,
                "cache_salt": salt}  # fmt: skip
        begin = time.monotonic()
        answer = httpx2.post(f"{vllm.url}/v1/chat/completions", json=body, timeout=600.0, trust_env=False)
        count(name, answer.json(), begin)

    def count(name, answer, begin):
        usage = answer["usage"]
        assert usage["prompt_tokens"] >= 1000, usage
        computed = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
        spent[name].append((computed, usage["prompt_tokens"], time.monotonic() - begin))

    through("full")
    old = layout.memory([plane.services.catalogue.get("one", name) for name in ("handbook", "pager")]).text
    plane.correct("pager@1", second)
    salt = cache_salt(plane.serving.salt_secret, "one", 0)
    for turn in range(2):
        through("full")
        direct("stale", f"{old}\n\n{question}", salt)
        direct("prompt_only", f"Turn {turn}, minute {7 * turn + draw.randrange(10**6)}.\n{old}\n{second}\n\n{question}",
               salt)  # fmt: skip
    cold, corrected, again = spent["full"]
    assert cold[0] > 1000 and again[0] < 0.1 * again[1]
    assert corrected[0] < 0.15 * corrected[1], "only what follows the old text is computed anew"
    assert abs(again[0] - spent["stale"][1][0]) <= 0.05 * again[1], "no dearer than reuse that was not invalidated"
    assert all(computed > 0.9 * total for computed, total, _ in spent["prompt_only"])
    times = {name: sum(seconds for _, _, seconds in mine[-2:]) for name, mine in spent.items()}
    assert times["full"] < 0.6 * times["prompt_only"], times

    # Another tenant was told the second text at once, so nothing of its prompt was ever invalidated. In turns, no wait
    # after a correction may be more than 5 % longer; nine of ten that are would be one in a hundred by chance, were the
    # median at that bound.
    plane.create("handbook", handbook, "two", stability="stable")
    plane.create("pager", second, "two", stability="volatile")
    through("untouched", "two")
    for _ in range(10):
        through("full")
        through("untouched", "two")
    pairs = list(zip(spent["full"][-10:], spent["untouched"][-10:], strict=True))
    assert all(mine[:2] == theirs[:2] for mine, theirs in pairs), pairs
    assert sum(mine[2] > 1.05 * theirs[2] for mine, theirs in pairs) < 9, pairs
