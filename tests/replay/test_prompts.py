"""Templates, and what is left out when the context is short."""

import hashlib

import numpy as np
import pytest

from solarjax.replay import prompts
from solarjax.replay.corpus import Corpus
from solarjax.replay.errors import BadOption
from solarjax.replay.prompts import Prompter, Template
from tests.replay.worlds import Words, encode, session

CORPUS = [(2, "alpha alpha"), (0, "beta beta"), (1, "gamma gamma")]


def test_every_packaged_template_renders():
    assert {"locomo_v1", "plain_v1", "experience_v1"} <= set(prompts.names())
    for name in ("locomo_v1", "plain_v1"):
        template = prompts.load(name)
        assert template.sha256 == hashlib.sha256(template.source.encode()).hexdigest()
        messages = template.render(corpus=["c1"], experiences=["e1", "e2"], question="q?")
        text = messages[-1]["content"]
        assert messages[-1]["role"] == "user"
        # What does not depend on the policy comes first, so that its prefix is shared.
        assert text.index("c1") < text.index("e1") < text.index("e2") < text.index("q?")
        assert "Earlier" not in template.render(corpus=["c1"], experiences=[], question="q?")[-1]["content"]


def test_published_templates_do_not_change_under_their_name():
    """A result names template and hash; a new wording needs a new number."""
    assert prompts.load("locomo_v1").sha256.startswith(LOCOMO_V1)


def test_an_experience_carries_the_right_answer_only_after_a_dislike():
    assert prompts.experience("q?", "a", True, "b") == "user: q? assistant: a (this was right)"
    assert prompts.experience("q?", "a\n a", False, "b") == "user: q? assistant: a a (this was wrong; right: b)"


def test_the_budget_drops_corpus_from_the_least_similar_then_experiences_from_the_last():
    template = Template(
        "t",
        "[user]\n{% for c in corpus %}{{ c }} {% endfor %}| "
        "{% for e in experiences %}{{ e }} {% endfor %}| {{ question }}",
    )

    def built(budget):
        return Prompter(template, Words(), budget).build(CORPUS, ["first", "second"], "why")

    # `user:` + 3 x 2 corpus words + `|` + 2 experiences + `|` + why + `assistant:` = 13 words.
    assert built(13).tokens == 13 and built(13).dropped == ()
    assert built(12).dropped == (("corpus", 2, 2),)
    assert "beta beta gamma gamma" in built(12).messages[0]["content"]
    assert built(9).dropped == (("corpus", 2, 2), ("corpus", 1, 2))
    assert built(7).dropped == (("corpus", 2, 2), ("corpus", 1, 2), ("corpus", 0, 2))
    assert built(6).dropped[-1] == ("experience", 1, 1) and "first" in built(6).messages[0]["content"]
    assert built(5).tokens == 5
    with pytest.raises(BadOption, match="the question alone takes 5 tokens, the budget is 4"):
        built(4)
    assert built(13).sha256 != built(12).sha256


def test_the_corpus_shows_the_closest_texts_in_the_order_of_the_dialogue():
    one = session("a", 6)
    corpus = Corpus(one, 3, encode)
    cosine = encode([q.text for q in one.questions]) @ encode(list(one.corpus)).T
    for question in range(6):
        shown = corpus.shown(question)
        best = sorted(range(6), key=lambda i: (-cosine[question, i], i))[:3]
        assert [text for _, text in shown] == [one.corpus[i] for i in sorted(best)]
        assert [best[rank] for rank, _ in shown] == sorted(best)
    assert Corpus(one, 0, encode).shown(0) == [] and np.shape(Corpus(one, 9, encode).top) == (6, 6)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("no section", "needs each of its sections"),
        ("[user]\na\n[user]\nb", "needs each of its sections"),
        ("[user]\n{% for %}", "is not valid"),
        ("[user]\n{{ answer }}", "'answer' is undefined"),
        ("[user]\n{{ question.__class__.__mro__ }}", "unsafe"),
    ],
)
def test_a_bad_template_is_refused(source, says):
    with pytest.raises(BadOption, match=says):
        Template("mine", source).render(corpus=[], experiences=[], question="q")


def test_templates_by_path_and_unknown_names(tmp_path):
    (tmp_path / "mine_v3.txt").write_text("[user]\n{{ question }}")
    assert prompts.load(str(tmp_path / "mine_v3.txt")).name == "mine_v3"
    with pytest.raises(BadOption, match="neither one of .*locomo_v1.* nor a readable file"):
        prompts.load("locomo_v9")


LOCOMO_V1 = "a6f75740dee2964e"
