"""Hand-worked scores; each expected number is derived in its comment from the rules, not from the code."""

import pytest

from solarjax.replay import scoring
from solarjax.replay.errors import BadOption


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        # Case, punctuation and articles do not count: {transgend, woman} on both sides.
        ("The transgender woman.", "Transgender woman", 1.0),
        # `and` is dropped: {dog, cat} against {dog, cat, bird}: p = 1, r = 2/3, F1 = 4/5.
        ("a dog and a cat", "dog, cat, bird", 0.8),
        # Porter stems: adoption -> adopt, agencies -> agenc = stem of agency.
        ("adopted agency", "Adoption agencies", 1.0),
        ("paint", "paintings", 1.0),
        # Bags, not sets: answer {no, no, ye}, gold {no}: common 1, p = 1/3, r = 1, F1 = 1/2.
        ("no no yes", "No", 0.5),
        # Numbers are words: {7, may, 2023} against {may, 2023}: p = 2/3, r = 1, F1 = 4/5.
        ("7 May, 2023", "May 2023", 0.8),
        ("2022", "2022", 1.0),
        ("in 2022", "2022", 2 / 3),
        # Punctuation is removed, not replaced: me-time -> metim, which is not `me time`.
        ("me-time", "me time", 0.0),
        ("me-time", "metime", 1.0),
        ("", "anything", 0.0),
        ("something", "", 0.0),
        # Only articles are left on both sides: nothing in common.
        ("the", "a", 0.0),
    ],
)
def test_temporal_and_single_hop(answer, gold, expected):
    for category in ("temporal", "single-hop"):
        assert scoring.score(answer, [gold], scoring.LOCOMO_RULES[category]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        # Each gold part finds its best predicted part: 1 and 1.
        ("psychology, counseling", "counseling, psychology", 1.0),
        # One of two parts is found: (1 + 0) / 2.
        ("psychology", "psychology, counseling", 0.5),
        # Parts are compared one by one: `beach` 1; `mountains` 0; forest: {deep, forest} p = 1/2, r = 1 -> 2/3.
        ("beach, deep forest", "beach, mountains, forest", (1 + 0 + 2 / 3) / 3),
        # Without a comma the answer is one part {beach, mountain}: each gold word p = 1/2, r = 1 -> 2/3.
        ("beach mountains", "beach, mountains", 2 / 3),
        # More parts than asked for cost nothing: LoCoMo means over the gold parts only.
        ("beach, mountains, forest", "beach", 1.0),
        ("", "beach", 0.0),
        (", ,", "beach", 0.0),
        # The comma of a number does not part it.
        ("1,200", "1200", 1.0),
    ],
)
def test_multi_hop_means_over_the_gold_parts(answer, gold, expected):
    assert scoring.score(answer, [gold], scoring.LOCOMO_RULES["multi-hop"]) == pytest.approx(expected)


def test_open_domain_reads_gold_up_to_the_first_semicolon():
    gold = "Likely no; though she likes reading, she wants to be a counselor"
    rule = scoring.LOCOMO_RULES["open-domain"]
    assert scoring.score("likely no", [gold], rule) == 1.0
    # Against the whole it would score less, which is what single-hop does.
    assert scoring.score("likely no", [gold], "single") < 0.5
    # {ye} against {like, no}.
    assert scoring.score("yes", [gold], rule) == 0.0


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Not mentioned in the conversation.", 1.0),
        ("There is no information available about that", 1.0),
        ("NOT MENTIONED", 1.0),
        ("self-care is important", 0.0),
        ("no information", 0.0),
        ("", 0.0),
    ],
)
def test_adversarial_is_scored_by_abstention_whatever_the_gold_says(answer, expected):
    rule = scoring.LOCOMO_RULES["adversarial"]
    assert scoring.score(answer, ["self-care is important"], rule) == expected
    assert scoring.score(answer, [], rule) == expected


def test_of_several_wordings_the_best_counts():
    assert scoring.score("New York", ["NYC", "New York City"], "single") == pytest.approx(0.8)


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(BadOption, match="'exact' is unknown; allowed are single"):
        scoring.score("a", ["b"], "exact")
    with pytest.raises(BadOption, match="needs a gold answer"):
        scoring.score("a", [], "single")
