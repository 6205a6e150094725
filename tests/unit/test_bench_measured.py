"""Sections of the benchmark on tiny sizes: what is measured is right, whatever the time it took.

The peer runs as plain Python; compiled by numba it runs in the gate of continuous integration (scripts/bench --gate).
"""

import jax
import numpy as np
import pytest

from solarjax.bench import compare as comparing
from solarjax.bench import engine, floor, machine
from solarjax.bench.cores import cores
from solarjax.bench.device import device
from solarjax.bench.errors import BenchError
from solarjax.bench.growth import growth
from solarjax.bench.machine import Speed
from solarjax.bench.peer import loop

SPEED = Speed(bytes_per_s=1e9, operations_per_s=1e8)


def plain(function):
    """The decorator that compiles nothing."""
    return function


def source(policy):
    """The peer without numba."""
    admission, eviction = loop.PEERS[policy]
    run = loop.build(plain, plain, admission(plain), eviction(plain))
    return lambda arrays, capacity: run(*arrays, capacity, np.zeros((0, 0), np.uint8))


def test_compare_pairs_with_the_peer_and_states_the_floor(monkeypatch):
    monkeypatch.setattr(loop, "available", lambda: True)
    monkeypatch.setattr(loop, "peer", source)
    (row,) = comparing.compare(["fifo"], [4], lanes=4, steps=30, repeats=3, speed=SPEED)
    assert row["hit_rate_engine"] == row["hit_rate_peer"] and 0 < row["hit_rate_peer"] < 1
    assert row["admissions_per_step"] == 1 and row["evictions_per_step"] == pytest.approx(26 / 30)
    assert row["ratio_low"] <= row["ratio_q1"] <= row["ratio"] <= row["ratio_q3"] <= row["ratio_high"]
    # 12K + 4k + ... by hand: ids and cosines 32, score 16, schedule 24, counters 208, write 8, pointer 8 bytes.
    assert row["floor_bytes"] == 32 + 16 + 24 + 208 + 8 + 8
    assert row["floor_operations"] == 8 + 30 + 42 + 2
    assert row["floor_bound"] == "operations" and row["floor_steps_per_s"] == pytest.approx(1e8 / 82)
    assert row["over_floor"] == pytest.approx(1e8 / 82 / row["engine_steps_per_s"])


def test_without_numba_the_engine_is_measured_alone(monkeypatch):
    monkeypatch.setattr(loop, "available", lambda: False)
    counted = {name: np.ones(4) for name in ("hits", "admissions", "evictions")}
    monkeypatch.setattr(engine, "program", lambda *args: engine.Program(lambda: counted, 1.0, 2.0))
    (row,) = comparing.compare(["fifo"], [4], lanes=4, steps=30, repeats=1, speed=SPEED)
    assert row["ratio"] is None and row["peer_steps_per_s"] is None and row["engine_steps_per_s"] > 0


def test_different_work_is_no_comparison():
    comparing.check_same_work("fifo", 10, 0.5, 0.5005)
    comparing.check_same_work("solar", 10, 0.5, 0.51)
    for policy, other in (("fifo", 0.51), ("solar", 0.55), ("fifo", float("nan"))):
        with pytest.raises(BenchError, match=f"disagree on {policy} at K = 10"):
            comparing.check_same_work(policy, 10, 0.5, other)


def test_device_stops_before_memory_and_time():
    rows = device(["fifo"], [4], [6, 10**6], steps=20, repeats=1, budget=2**40, seconds=1e-9, speed=SPEED)
    assert [row["left_out"] for row in rows] == [None, "time"] and rows[1]["estimate"] > 1e-9
    assert rows[0]["steps_per_s"] > 0 and rows[0]["compile_s"] > 0
    assert rows[0]["bound_steps_per_s"] == pytest.approx(1e9 / rows[0]["streamed_bytes"])
    assert rows[0]["of_bound"] == pytest.approx(rows[0]["steps_per_s"] / rows[0]["bound_steps_per_s"])
    rows = device(["fifo"], [4, 50], [10**6], steps=20, budget=2**28, speed=SPEED)
    assert [row["left_out"] for row in rows] == ["memory", "memory"] and rows[0]["estimate"] < rows[1]["estimate"]
    with pytest.raises(BenchError, match="lanes 5, 5"):
        device(["fifo"], [4], [5, 5])


def test_cores_count_the_same_and_both_devices_hold_lanes():
    assert len(jax.devices()) == 2
    (row,) = cores(["fifo"], [4], lanes=7, steps=20, repeats=2)
    assert row["lanes"] == 6 and row["devices"] == 2 and row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    with pytest.raises(BenchError, match="1 lanes are fewer than the 2 devices"):
        cores(["fifo"], [4], lanes=1, steps=20)


def test_growth_varies_one_size_at_a_time(monkeypatch):
    sizes = []

    def program(block, policy, capacity, lanes):
        steps, workloads = block.query.shape[1], block.query.shape[0]
        sizes.append((steps, capacity, block.similarity.shape[2], lanes, workloads))
        return engine.Program(lambda: None, 1.0, 2.0)

    monkeypatch.setattr(engine, "on_device", lambda arrays: arrays)
    monkeypatch.setattr(engine, "program", program)
    axes = {"steps": (20, 30), "capacity": (4, 8), "items": (20, 40), "lanes": (3, 6)}
    base = {"steps": 20, "capacity": 4, "items": 20, "lanes": 6}
    rows = growth(["fifo"], axes=axes, base=base, workloads=5, repeats=2)
    assert [(row["axis"], row["policy"], row["points"]) for row in rows] == [
        (a, "fifo", list(p)) for a, p in axes.items()
    ]
    assert all(row["low"] <= row["exponent"] <= row["high"] and len(row["seconds"]) == 2 for row in rows)
    usual = (20, 4, 20, 6, 5)
    changed = [(30, 4, 20, 6, 5), (20, 8, 20, 6, 5), (20, 4, 40, 6, 5)]
    assert sizes == [usual, changed[0], usual, changed[1], usual, changed[2], (20, 4, 20, 3, 3), usual]
    with pytest.raises(BenchError, match="at least 2 rounds"):
        growth(["fifo"], repeats=1)


def test_the_carry_is_counted_from_the_program():
    """FIFO: ids, order and cosines of K slots; size, insertions, two clocks, pointer; 10 counts, 2 x 8 sums."""
    assert engine.carried_bytes("fifo", 6) == 4 * (3 * 6 + 5 + 10 + 16)
    # LRU swaps the pointer for a stamp per slot.
    assert engine.carried_bytes("lru", 6) - engine.carried_bytes("fifo", 6) == 4 * 5
    assert floor.streamed_bytes("fifo", 6, 1.0) == 2 * 4 * 49 + 4 * 6 + 4 * 3 + 4 + 24


def test_machine_speeds_are_measured(monkeypatch):
    monkeypatch.setitem(machine.STREAM_BYTES, "cpu", 2**12)
    monkeypatch.setitem(machine.LOCAL, "cpu", 16)
    speed = machine.measure(repeats=1)
    assert 0 < speed.bytes_per_s < np.inf and 0 < speed.operations_per_s < np.inf
