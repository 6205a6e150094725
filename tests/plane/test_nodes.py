"""What is known of a node: health, breaker, load, speed, residency."""

import itertools

import msgspec
import numpy as np
import pytest
from pydantic import ValidationError

from solarjax.plane.errors import Invalid
from solarjax.plane.placement.breaker import FIRST_PAUSE, LONGEST_PAUSE, Breaker
from solarjax.plane.placement.config import NodeConfig
from solarjax.plane.placement.latency import FORGET, PRIOR_MS, PRIOR_WEIGHT, Latency
from solarjax.plane.placement.nodes import DOWN_SECONDS, LONGEST_RESIDENCY, Node, unique
from solarjax.plane.placement.rates import Brier, Decayed, Forecasts, at_least_once
from solarjax.plane.placement.scrape import Sample, parse
from tests.plane.kv import message, stored

PAGE = """# HELP process_start_time_seconds Start time.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79602976017e+09
vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 4.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:prefix_cache_queries_total{engine="0"} 378.0
vllm:prefix_cache_hits_total{engine="0"} 352.0
vllm:cache_config_info{block_size="32",num_gpu_blocks="512",other="x"} 1.0
vllm:something_else{a="b"} 3.0
"""


class Hand:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def node():
    config = NodeConfig(name="a", url="http://127.0.0.1:1", model="m", events="ipc:///x")
    made = Node(config, Hand(), "fingerprint")
    made.hand = made._clock
    return made


def test_a_page_of_metrics_is_read():
    sample = parse(PAGE)
    assert sample == Sample(1.79602976017e9, 3, 4, 0.25, 512, 32, 378.0, 352.0)
    assert parse("") == Sample(), "what is not reported is not known"
    with pytest.raises(Invalid):
        parse("process_start_time_seconds one")


def test_health_and_what_silence_does_to_belief(node):
    assert node.health == "unknown" and node.usable
    node.scraped(parse(PAGE))
    node.log.replayed([(0, message(1.0, stored(1, 2)))])
    assert node.health == "up" and node.block_size == 32 and node.resident_blocks([1, 2, 3]) == 2
    node.unreachable()
    assert node.health == "suspect" and node.usable
    node.hand.now += DOWN_SECONDS + 0.1
    node.unreachable()
    assert node.health == "down" and not node.usable and node.resident_blocks([1]) is None and not node.log.known
    node.scraped(parse(PAGE))
    assert node.health == "up" and node.resident_blocks([1]) is None, "it has to prove its log first"
    node.log.replayed([(0, message(1.0, stored(1, 2)))])
    assert node.resident_blocks([1, 2]) == 2


def test_another_start_time_empties_what_was_believed(node):
    node.scraped(parse(PAGE))
    node.log.replayed([(0, message(1.0, stored(1, 2)))])
    node.scraped(parse(PAGE.replace("1.79602976017e+09", "1.79602999999e+09")))
    assert node.log.restarts == 1 and node.resident_blocks([1]) is None


def test_a_shortfall_is_reconciled_unless_the_log_has_told(node):
    node.scraped(parse(PAGE))
    node.log.replayed([(0, message(1.0, stored(1, 2, 3)))])
    node.found([1, 2, 3], 3, 3, node.log.position)
    assert node.resident_blocks([1, 2, 3]) == 3
    node.found([1, 2, 3], 3, 2, node.log.position - 1)
    assert node.resident_blocks([1, 2, 3]) == 3, "events since then say what is there"
    node.found([1, 2, 3], 3, 2, node.log.position)
    assert node.resident_blocks([1, 2, 3]) == 2
    node.found([1, 2], 2, 0, node.log.position)
    assert len(node.log.index) == 0


def test_the_breaker_opens_pauses_and_closes():
    breaker, now = Breaker(), 0.0
    for _ in range(2):
        breaker.failed(now)
    breaker.succeeded()
    for _ in range(3):
        assert breaker.allows(now)
        breaker.failed(now)
    assert breaker.state(now) == "open" and not breaker.allows(now)
    pauses = []
    for _ in range(8):
        begin = now
        while not breaker.allows(now):
            now += 0.25
        pauses.append(now - begin)
        assert breaker.state(now) == "half_open"
        breaker.sent(now)
        assert not breaker.allows(now), "one try at a time"
        breaker.failed(now)
    assert pauses == [min(FIRST_PAUSE * 2**i, LONGEST_PAUSE) for i in range(8)]
    now += LONGEST_PAUSE
    breaker.sent(now)
    breaker.abandoned()
    assert breaker.allows(now), "a try that told nothing may be made again"
    breaker.succeeded()
    assert breaker.state(now) == "closed"


def test_the_curve_is_least_squares_with_forgetting():
    """Against one dense weighted least squares problem with the prior as extra rows."""
    rng = np.random.default_rng(1)
    latency = Latency()
    u = rng.uniform(50, 2000, 60)
    y = 70 + 0.9 * u + 2e-4 * u**2 + rng.normal(0, 5, 60)
    for uncached, ms in zip(u, y, strict=True):
        latency.observe(int(uncached), ms)
    x = np.stack([np.ones(60), u.astype(int) / 1e3, (u.astype(int) / 1e3) ** 2], axis=1)
    weight = np.sqrt(FORGET ** np.arange(59, -1, -1))
    rows = np.concatenate([x * weight[:, None], np.diag(np.sqrt(PRIOR_WEIGHT))])
    right = np.concatenate([y * weight, np.sqrt(PRIOR_WEIGHT) * np.asarray(PRIOR_MS)])
    expected = np.linalg.lstsq(rows, right, rcond=None)[0] / [1, 1e3, 1e6]
    assert expected.min() > 0 and np.allclose(latency.curve, expected, rtol=1e-9)
    assert latency.measured and abs(latency.curve(1000) - (70 + 900 + 200)) < 30
    falling = Latency()
    for uncached in (100, 500, 900):
        falling.observe(uncached, 1000 - uncached)
    assert min(falling.curve) >= 0 and not falling.measured, "more tokens never cost less"
    slow = Latency()
    for uncached in (130, 30) * 10:  # eight times as dear as the prior says, seen on short prompts only
        slow.observe(uncached, 60 + 4.5 * uncached)
    assert (slow.curve(300) - slow.curve(150)) / (4.5 * 150) == pytest.approx(1.0, abs=0.1)


def test_load_counts_what_is_sent_and_not_yet_answered(node):
    assert node.queue_ms() == 0.0 and node.idle
    first, second = node.sent(100), node.sent(None)
    curve = node.latency.curve
    assert node.queue_ms() == pytest.approx(curve(100) + curve(500)) and not node.idle
    node.first_byte(first)
    node.latency.observe_decode(40.0)
    assert node.queue_ms() == pytest.approx(curve(500) + 40.0)
    node.finished(first)
    node.finished(second)
    assert node.queue_ms() == 0.0
    node.scraped(parse(PAGE), asked=node.now())
    assert node.queue_ms() == 0.0 and node.idle, "what was ours when the metrics were read is not others' load"
    node.hand.now += 1.0
    node.scraped(parse(PAGE))
    assert node.queue_ms() == pytest.approx(7 * curve(500)) and not node.idle, "others' requests count too"
    third = node.sent(0)
    node.scraped(parse(PAGE))
    node.finished(third)
    assert node.queue_ms() == 0.0 and node.idle


def test_residency_is_room_over_rate(node):
    assert node.residency_seconds() == LONGEST_RESIDENCY
    node.scraped(parse(PAGE))
    numbers = itertools.count(1)
    node.log.replayed([(0, message(1.0))])
    for second in range(600):
        node.log.offer(second + 1, message(2.0 + second, stored(next(numbers), next(numbers))))
        node.hand.now += 1.0
        node.scraped(parse(PAGE))
    assert node.free_blocks() == 384 and node.residency_seconds() == pytest.approx(384 / 2, rel=0.05)


def test_rates_decay_and_forecasts_are_scored():
    rates = Decayed(half_life=10.0, max_keys=2)
    for t in range(2000):
        rates.add("k", t / 10)
    assert rates.rate("k", 200.0) == pytest.approx(10.0, rel=0.05)
    assert rates.weight("k", 210.0) == pytest.approx(rates.weight("k", 200.0) / 2)
    rates.add("l", 0.0)
    rates.add("m", 0.0)
    assert rates.rate("k", 200.0) == 0.0, "the least recently used key goes"
    assert at_least_once(0.1, 10.0) == pytest.approx(1 - np.exp(-1)) and at_least_once(-1.0, 5.0) == 0.0
    brier = Brier()
    assert brier.score is None
    for p, happened in ((1.0, True), (0.0, False), (0.5, True)):
        brier.add(p, happened)
    assert brier.score == pytest.approx(0.25 / 3) and brier.base == pytest.approx(2 / 9)
    forecasts = Forecasts()
    forecasts.make("a", 0.8, until=10.0)
    forecasts.make("b", 0.3, until=10.0)
    forecasts.used("a", 5.0)
    forecasts.expire(11.0)
    assert forecasts.brier.count == 2 and forecasts.brier.score == pytest.approx((0.04 + 0.09) / 2)


def test_configurations_that_cannot_work_are_refused():
    good = {"name": "a", "url": "http://127.0.0.1:1", "model": "m"}
    with pytest.raises(Invalid, match="two nodes are named 'a'"):
        unique([NodeConfig(**good), NodeConfig(**good)])
    for wrong in ({"url": "ftp://x"}, {"url": "http://x/v1"}, {"events": "kv.sock"}, {"hash_algorithm": "xxhash"},
                  {"block_size": 0}, {"name": "a b"}, {"port": 1}):  # fmt: skip
        with pytest.raises(ValidationError):
            NodeConfig(**{**good, **wrong})
    assert msgspec.msgpack.decode(message(1.0))[0] == 1.0
