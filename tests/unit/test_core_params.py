"""Parameters and sweep arguments: every error with its message, and what is accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from solarjax.core.arguments import check_arguments
from solarjax.core.chunks import SweepError
from solarjax.core.params import Param, check_name, check_value, resolve, suggest

PARAMS = {
    "lam": Param(5.0, "switching cost", low=0.5, high=10.0),
    "period": Param(5, "queries", low=1),
    "offset": Param(0, "steps"),
    "fill": Param("free", "while filling", choices=("free", "gated"), static=True),
    "depth": Param(3, "items", choices=(1, 3, 5)),
    "greedy": Param(False, "take all"),
}


@pytest.mark.parametrize(
    ("name", "value", "parsed"),
    [
        ("lam", "2.5", 2.5),
        ("lam", 10, 10.0),
        ("lam", np.float32(0.5), 0.5),
        ("period", "7", 7),
        ("period", 7.0, 7),
        ("offset", "-3", -3),
        ("fill", "gated", "gated"),
        ("depth", "5", 5),
        ("greedy", "yes", True),
        ("greedy", "False", False),
        ("greedy", 1, True),
    ],
)
def test_values_are_parsed(name: str, value: Any, parsed: Any) -> None:
    got = check_value("toy", name, PARAMS[name], value, SweepError)
    assert got == parsed and type(got) is type(parsed)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("lam", "11", "toy: lam = '11' is out of range; allowed are 0.5..10"),
        ("lam", 0.4, "toy: lam = 0.4 is out of range; allowed are 0.5..10"),
        ("lam", "much", "toy: lam = 'much' must be a number"),
        ("lam", None, "toy: lam = None must be a number"),
        ("lam", "nan", "toy: lam = 'nan' must be finite"),
        ("lam", float("inf"), "toy: lam = inf must be finite"),
        ("period", 0, "toy: period = 0 is out of range; allowed are 1..inf"),
        ("period", 2.5, "toy: period = 2.5 must be a whole number"),
        ("period", "nan", "toy: period = 'nan' must be a whole number"),
        ("period", "inf", "toy: period = 'inf' must be a whole number"),
        ("fill", "fre", "toy: fill = 'fre' is not one of free, gated; did you mean 'free'?"),
        ("fill", "x", "toy: fill = 'x' is not one of free, gated"),
        ("depth", 4, "toy: depth = 4 is not one of 1, 3, 5"),
        ("greedy", "perhaps", "toy: greedy = 'perhaps' must be true or false"),
    ],
)
def test_wrong_values_are_named(name: str, value: Any, message: str) -> None:
    with pytest.raises(SweepError) as caught:
        check_value("toy", name, PARAMS[name], value, SweepError)
    assert str(caught.value) == message


def test_unknown_names_come_with_a_suggestion() -> None:
    check_name("policy", "lru", ["lru", "lfu"], SweepError)
    with pytest.raises(SweepError) as caught:
        check_name("policy", "lruu", ["lru", "fifo"], SweepError)
    assert str(caught.value) == "unknown policy 'lruu'; did you mean 'lru'? (known: fifo, lru)"
    assert suggest("zzz", ["lru", "fifo"]) == ""
    with pytest.raises(SweepError, match="unknown parameter of toy 'lamb'; did you mean 'lam'"):
        resolve("toy", PARAMS, {"lamb": 1}, SweepError)


def test_what_is_not_given_keeps_its_default() -> None:
    assert resolve("toy", PARAMS, {"lam": "2", "greedy": "true"}, SweepError) == {
        "lam": 2.0,
        "period": 5,
        "offset": 0,
        "fill": "free",
        "depth": 3,
        "greedy": True,
    }


def arguments(**changed: Any) -> Any:
    """The checked arguments of a sweep."""
    sound = {
        "capacities": [10, 20],
        "seeds": 3,
        "grid": {"lam": [1, 2]},
        "lambdas": [1],
        "k": 3,
        "quality": "hit",
        "feedback": "retrieved",
        "root_seed": 0,
    }
    return check_arguments(**(sound | changed))


def test_arguments_are_canonical() -> None:
    got = arguments(capacities=(np.int64(5),), seeds=(7, 2**32 - 1), grid=None, lambdas=(0, "2.5"))
    assert got == ([5], [7, 2**32 - 1], {}, [0.0, 2.5])
    assert type(got.capacities[0]) is int
    assert arguments() == ([10, 20], [0, 1, 2], {"lam": [1.0, 2.0]}, [1.0])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"capacities": []}, "capacities = []: each must be a whole number >= 1"),
        ({"capacities": [10, 0]}, "capacities = [10, 0]: each must be a whole number >= 1"),
        ({"capacities": [2.5]}, "capacities = [2.5]: each must be a whole number >= 1"),
        ({"capacities": ["ten"]}, "capacities = ['ten']: each must be a whole number >= 1"),
        ({"capacities": [10, 20, 10]}, "capacities = [10, 20, 10]: each may be named once"),
        ({"seeds": 0}, "seeds: at least one is needed"),
        ({"seeds": []}, "seeds: at least one is needed"),
        ({"seeds": [1, 2, 1]}, "seeds must be different whole numbers in 0..2^32-1"),
        ({"seeds": [-1]}, "seeds must be different whole numbers in 0..2^32-1"),
        ({"seeds": [2**32]}, "seeds must be different whole numbers in 0..2^32-1"),
        ({"seeds": [0.5]}, "seeds must be different whole numbers in 0..2^32-1"),
        ({"root_seed": -1}, "root_seed = -1 must be in 0..2^32-1"),
        ({"root_seed": 2**32}, f"root_seed = {2**32} must be in 0..2^32-1"),
        ({"k": 0}, "k = 0: the retrieval depth must be at least 1"),
        (
            {"quality": "hits"},
            "quality = 'hits' is not one of hit, recall, precision, f1, max_similarity, mean_similarity, answer_recall",
        ),
        ({"feedback": "none"}, "feedback = 'none' is not one of retrieved, liked, liked_disliked"),
        ({"grid": {"lam": []}}, "grid lam = []: different values are needed"),
        ({"grid": {"lam": [1, 1.0]}}, "grid lam = [1.0, 1.0]: different values are needed"),
        ({"lambdas": []}, "lambdas = []: switching costs must be finite and >= 0"),
        ({"lambdas": [-1]}, "lambdas = [-1.0]: switching costs must be finite and >= 0"),
        ({"lambdas": [float("nan")]}, "lambdas = [nan]: switching costs must be finite and >= 0"),
        ({"lambdas": [float("inf")]}, "lambdas = [inf]: switching costs must be finite and >= 0"),
    ],
)
def test_wrong_arguments_are_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(SweepError) as caught:
        arguments(**changed)
    assert str(caught.value) == message
