"""What search finds: only what holds, only of this tenant, at the instant asked for."""

import numpy as np
import pytest

from solarjax.plane.clock import to_datetime
from solarjax.plane.encoding import MiniLMEncoder
from solarjax.plane.errors import Invalid
from solarjax.plane.retriever import Query, Retriever
from solarjax.plane.textindex import words
from solarjax.plane.vectors import Embedded
from tests.plane.helpers import HOUR, content, draft, ref, vector


class Letters:
    """An encoder anybody can work out: counts of the letters a to e, scaled to unit length."""

    def embed(self, texts):
        return [Embedded.unit("letters", [0.001 + text.lower().count(c) for c in "abcde"]) for text in texts]


ENCODER = Letters()
MINILM = MiniLMEncoder()  # loads nothing yet


@pytest.fixture
def search(world):
    def run(text, encoder=None, **fields):
        retriever = Retriever(world.catalogue.database, world.clock, encoder)
        return retriever.search(world.tenant, Query(text=text, **fields)).hits

    return run


def names(hits):
    return [str(hit.capsule.ref) for hit in hits]


def test_words_find_text_summary_entities_and_facts(world, search):
    world.create("a", text="the refund window")
    world.create("b", text="x", summary="A REFUND")
    world.create("c", text="x", entities=("Refund desk",))
    world.create("d", text="x", facts=[{"subject": "desk", "predicate": "does", "object": "refund"}])
    world.create("e", text="refunds")  # another word
    assert sorted(names(search("refund"))) == ["a@1", "b@1", "c@1", "d@1"]
    assert [h.word_rank for h in search("refund")] == [1, 2, 3, 4]
    assert search("nothing of that") == () and search("?!") == ()


def test_more_matching_words_rank_higher(world, search):
    for i in range(8):
        world.create(f"noise{i}", text="green apples grow")
    world.create("both", text="green pears")
    assert names(search("green pears"))[0] == "both@1"


@pytest.mark.parametrize(
    "text", ["refund' OR 1=1 --", 'refund" AND NOT x*', "NEAR(refund", "refund:*", "^refund", "a\\b"]
)
def test_operators_of_the_search_engines_are_words(world, search, text):
    world.create("a", text="the refund window")
    assert isinstance(search(text), tuple)
    assert words("NEAR(a-b_c) É1") == ["near", "a", "b", "c", "é1"]


def test_ended_versions_are_not_found_and_the_past_is(world, search):
    start = world.clock.now
    world.create("a", text="blue whale", begin=start - 5 * HOUR)
    world.create("s", "a@1", text="whale summary", begin=start - 5 * HOUR)
    epoch = world.catalogue.state(world.tenant).epoch
    world.supersede("a@1", text="grey whale", begin=start - HOUR)
    assert names(search("whale")) == ["a@2"]
    then = to_datetime(start - 2 * HOUR)
    assert sorted(names(search("whale", as_of=then))) == ["a@1", "s@1"]
    assert sorted(names(search("whale", epoch=epoch))) == ["a@1", "s@1"]
    world.delete("a")
    assert search("whale") == () and search("whale", as_of=then) == ()


def test_hundreds_of_ended_versions_do_not_crowd_out_the_one_that_holds(world, search):
    world.create("a", text="whale 0", vector=vector(1, 1, 1, 1, 1, model="letters"))
    for i in range(1, 120):
        new = content(f"whale whale {i}")
        world.catalogue.correct(world.intent, ref(f"a@{i}"), new, ENCODER.embed([new.text])[0])
    world.create("b", text="a whale", vector=ENCODER.embed(["a whale"])[0])
    assert sorted(names(search("whale", limit=2))) == ["a@120", "b@1"]
    assert sorted(names(search("whale", ENCODER, limit=2, weight_words=0))) == ["a@120", "b@1"]


def test_kind_and_entity_narrow_the_search(world, search):
    world.create("a", text="red car", kind="plan", entities=("garage",))
    world.create("b", text="red car")
    assert names(search("car", kind="plan")) == names(search("car", entity="garage")) == ["a@1"]


def test_tenants_do_not_see_or_influence_each_other(world, search, shared_catalogue):
    """The other tenant's vocabulary must not move this one's scores: with shared statistics it would."""
    for text in ("rare common", "common", "common"):
        world.create(f"x{len(text)}{world.clock.now}", text=text)
    before = [(str(h.capsule.ref), h.score) for h in search("rare common")]
    other = type(world)(shared_catalogue)
    for i in range(30):
        other.create(f"o{i}", text="rare rare rare", vector=ENCODER.embed(["rare"])[0])
    assert [(str(h.capsule.ref), h.score) for h in search("rare common")] == before
    assert search("rare", ENCODER, weight_words=0) == ()


def test_meaning_ranks_by_cosine_exactly(world, search):
    """Against a plain loop over all vectors."""
    rng = np.random.default_rng(3)
    texts = {f"t{i}": "".join(rng.choice(list("abcde"), size=rng.integers(1, 9))) for i in range(60)}
    for name, text in texts.items():
        world.create(name, text=text, vector=ENCODER.embed([text])[0])
    (query,) = ENCODER.embed(["abba"])
    cosine = {name: float(np.dot(ENCODER.embed([text])[0].values, query.values)) for name, text in texts.items()}
    best = sorted(cosine.values(), reverse=True)[:7]
    hits = search("abba", ENCODER, limit=7, weight_words=0)
    np.testing.assert_allclose([h.cosine for h in hits], best, rtol=1e-6)
    assert [h.meaning_rank for h in hits] == list(range(1, 8))


def test_fusion_is_by_reciprocal_ranks(world, search):
    world.create("a", text="aaa", vector=ENCODER.embed(["aaa"])[0])
    world.create("b", text="aaa bbb", vector=ENCODER.embed(["bbb"])[0])
    hits = {str(h.capsule.ref): h for h in search("bbb", ENCODER, weight_meaning=2.0)}
    assert hits["b@1"].score == pytest.approx(1 / 61 + 2 / 61)
    assert hits["a@1"].word_rank is None and hits["a@1"].score == pytest.approx(2 / 62)


def test_erased_vectors_leave_the_index(world, search):
    world.create("a", text="abc", vector=ENCODER.embed(["abc"])[0])
    retriever = Retriever(world.catalogue.database, world.clock, ENCODER)
    assert retriever.search(world.tenant, Query(text="abc")).hits
    world.delete("a", erase=True)
    world.create("b", text="bcd", vector=ENCODER.embed(["bcd"])[0])
    assert names(retriever.search(world.tenant, Query(text="abc", weight_words=0)).hits) == ["b@1"]
    (matrix,) = retriever._index._matrices.values()
    assert len(matrix.vids) == 1, "the erased vector is still in memory"


def test_restored_versions_keep_their_vectors(world, search):
    world.create("a", text="abc", vector=ENCODER.embed(["abc"])[0])
    world.delete("a")
    world.restore("a@1")
    assert names(search("abc", ENCODER, weight_words=0)) == ["a@2"]


def test_missing_vectors_are_made_once(world, search):
    from solarjax.plane.reindex import embed_missing

    for i in range(5):
        world.create(f"c{i}", text="abcde"[: i + 1])
    assert embed_missing(world.catalogue, world.tenant, ENCODER) == 5
    assert embed_missing(world.catalogue, world.tenant, ENCODER) == 0
    assert names(search("a", ENCODER, limit=1, weight_words=0)) == ["c0@1"]


@pytest.mark.parametrize("values", [[0.0, 0.0], [float("nan"), 1.0], [], [[1.0]]])
def test_impossible_vectors_are_refused(values):
    with pytest.raises(Invalid):
        Embedded.unit("m", values)


def test_vectors_of_another_size_are_refused(world, search):
    world.create("a", text="abc", vector=vector(1, 2, model="letters"))
    with pytest.raises(Invalid, match="5 dimensions"):
        search("abc", ENCODER)


def test_the_sentence_encoder_finds_a_paraphrase(world):
    """The real all-MiniLM-L6-v2, loaded on first use."""
    encoder = MINILM
    retriever = Retriever(world.catalogue.database, world.clock, encoder)
    for name, text in (("cat", "The cat sleeps on the sofa."), ("tax", "Income tax is due in May.")):
        made = draft(name, text)
        world.catalogue.create(world.intent, made, encoder.embed([text])[0])
    hits = retriever.search(world.tenant, Query(text="a kitten taking a nap")).hits
    assert names(hits) == ["cat@1", "tax@1"] and hits[0].cosine > hits[1].cosine + 0.2
