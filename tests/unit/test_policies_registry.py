"""Cases and command-line policies: what is accepted, and every error with its message."""

from __future__ import annotations

import math

import pytest

from solarjax.policies.registry import PAPER_EIGHT, POLICIES, Needs, PolicyError, case, parse_cases


def test_every_spec_is_complete() -> None:
    """A line in the registry is enough for listings, tables and the command line."""
    for name, spec in POLICIES.items():
        assert spec.paper and spec.summary and name == name.strip().lower()
        made = case(name)
        assert dict(made.static) | dict(made.traced) == {n: p.default for n, p in spec.params.items()}
        for parameter in spec.params.values():
            assert parameter.doc
            assert parameter.static == (type(parameter.default) is str)
            # A number that is traced cannot be checked against choices; it has a lower bound instead.
            assert parameter.choices if parameter.static else parameter.low is not None
    assert len(PAPER_EIGHT) == 8 and set(PAPER_EIGHT) <= set(POLICIES)


def test_labels_say_what_differs_from_the_default() -> None:
    assert case("solar").label == "solar"
    assert case("solar", lam=5.0, threshold="release").label == "solar"
    assert case("solar", lam="2", fill="free", age_period=10).label == "solar(fill=free,lam=2,age_period=10)"
    assert case("solar", "mine", lam=2).label == "mine"


def test_needs_follow_the_structure() -> None:
    """What a rule does not look at is not built."""
    assert case("fifo").needs == Needs()
    assert case("solar").needs == Needs(candidate_similarity=True, pairwise=True, nearest=3, costly_victim=True)
    assert case("solar", bonus="age", signal="miss").needs == Needs(costly_victim=True)
    assert case("solar_a", signal="miss").needs == Needs(pairwise=True, nearest=1, costly_victim=True)
    assert case("gated_fifo").needs == Needs(candidate_similarity=True)
    assert case("oracle").needs == Needs(future=True)
    offline = {name for name in POLICIES if case(name).needs.future or case(name).needs.coverage}
    assert offline == {name for name, spec in POLICIES.items() if not spec.online}


def test_groups_and_brackets() -> None:
    labels = [c.label for c in parse_cases("all, solar(lam=2, fill=free),  keep_first ")[0]]
    assert labels == [*PAPER_EIGHT, "solar(fill=free,lam=2)", "keep_first"]
    assert [c.name for c in parse_cases("every")[0]] == list(POLICIES)


def test_parameters_for_all_that_have_them() -> None:
    """One value is set where the parameter exists and the brackets say nothing else; several become an axis."""
    cases, grid = parse_cases("lru,solar,solar_a(lam=9)", ["lam=2", "age_period=1,2"])
    assert [c.label for c in cases] == ["lru", "solar(lam=2)", "solar_a(lam=9)"]
    assert grid == {"age_period": [1.0, 2.0]}
    cases, grid = parse_cases("solar,gated_fifo", ["threshold=eoq"])
    assert [c.label for c in cases] == ["solar(threshold=eoq)", "gated_fifo(threshold=eoq)"] and not grid


@pytest.mark.parametrize(
    ("text", "params", "message"),
    [
        ("fifi", [], "unknown policy 'fifi'; did you mean 'fifo'? (known: arc, "),
        ("fifi", ["lam=1"], "unknown policy 'fifi'; did you mean 'fifo'? (known: arc, "),
        ("solar(lambda=2)", [], "unknown parameter of solar 'lambda'; did you mean 'lam'? (known: age_period, "),
        ("fifo(lam=2)", [], "unknown parameter of fifo 'lam' (known: )"),
        ("solar(lam=-1)", [], "solar: lam = '-1' is out of range; allowed are 1e-06..inf"),
        ("solar(lam=nan)", [], "solar: lam = 'nan' must be finite"),
        ("bernoulli(p=1.01)", [], "bernoulli: p = '1.01' is out of range; allowed are 0..1"),
        ("solar(age_period=1.5)", [], "solar: age_period = '1.5' must be a whole number"),
        (
            "solar(threshold=eqo)",
            [],
            "solar: threshold = 'eqo' is not one of release, paper_ema, eoq, fixed; did you mean 'eoq'?",
        ),
        ("solar(lam=2", [], "policy 'solar(lam=2': the bracket is not closed"),
        ("solar(lam)", [], "'lam' is not name=value"),
        ("solar", ["=3"], "'=3' is not name=value"),
        ("solar", ["lam="], "'lam=' is not name=value"),
        ("", [], "no policy named in ''; name some of unlimited, fifo, "),
        (" , ", [], "no policy named in ' , '; name some of unlimited, fifo, "),
        ("fifo,lru,fifo", [], "policy 'fifo' is named twice"),
        ("solar,solar(lam=5)", [], "policy 'solar' is named twice"),
        ("all,lru", [], "policy 'lru' is named twice"),
        ("solar(lam=2,ema=0),solar(ema=0,lam=2)", [], "policy 'solar(lam=2,ema=0)' is named twice"),
        ("fifo,lru", ["lam=2"], "unknown parameter of the named policies 'lam' (known: )"),
        (
            "fifo,solar",
            ["lamb=2"],
            "unknown parameter of the named policies 'lamb'; did you mean 'lam'? (known: age_period, ",
        ),
        ("solar", ["lam=1,1.0"], "lam = 1,1.0: a grid needs different values"),
        ("solar", ["lam=1,0"], "solar: lam = '0' is out of range; allowed are 1e-06..inf"),
        ("solar", ["lam=1,x"], "solar: lam = 'x' must be a number"),
        (
            "solar",
            ["fill=free,gated"],
            "fill is a structural choice; name the policy twice instead, as in solar(fill=free)",
        ),
    ],
)
def test_errors(text: str, params: list[str], message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_cases(text, params)
    assert str(caught.value).startswith(message)
    if not message.endswith((", ", " ")):
        assert str(caught.value) == message


def test_values_become_what_a_factory_can_use() -> None:
    made = case("solar", lam="2", age_period="3")
    traced = dict(made.traced)
    assert traced["lam"] == 2.0 and traced["age_period"] == 3.0
    assert all(isinstance(v, float) and math.isfinite(v) for v in traced.values())
    assert made == case("solar", age_period=3, lam=2.0)
