"""The developer's benchmark: `solarjax bench`, and the regression gate of continuous integration.

    scripts/bench [the options of solarjax bench]
    scripts/bench --gate [--update]       ratios of FIFO and SOLAR against reports/bench/gate.json

`--gate` exits with 1 and says what became too slow; `--update` stores the measured ratios as the new reference.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from solarjax.bench import gate, results, sections
from solarjax.cli.errors import run_guarded
from solarjax.cli.main import main as solarjax

REFERENCE = Path(__file__).resolve().parents[1] / "reports" / "bench" / "gate.json"


def run_gate(update: bool, reference: Path = REFERENCE) -> int:
    """Measures the gate's ratios; the exit code."""
    if update:
        with results.clock() as seconds:
            done = sections.measure("compare", gate.SIZES)
        rows, devices = done.rows, {done.name: done.device}
        record = results.record(gate.SIZES.plain(), "scripts/bench --gate --update", seconds(), devices)
        results.write(reference, results.text(gate.document(rows, record)))
        shown = ", ".join(f"{row['policy']} {row['ratio']:.2f}" for row in rows)
        print(f"gate: stored {shown} in {reference.name}")
        return 0
    wanted = gate.load(reference)
    for attempt in ("first", "second"):
        rows = sections.measure("compare", gate.SIZES).rows
        slow = gate.verdict(rows, wanted)
        for row in rows:
            expected = wanted.get((row["policy"], row["capacity"]))
            print(
                f"gate: {row['policy']} K={row['capacity']}: {row['ratio']:.2f} times the compiled loop "
                f"({row['ratio_low']:.2f} .. {row['ratio_high']:.2f}); reference {expected:.2f}"
            )
        if not slow:
            return 0
        print(f"gate: too slow in the {attempt} measurement: {'; '.join(slow)}", file=sys.stderr)
    print(
        "gate: FAILED twice. Look for what made the step slower; where that is meant, `scripts/bench --gate --update` "
        "stores a new reference.",
        file=sys.stderr,
    )
    return 1


def main(words: list[str]) -> None:
    """Runs the gate, or hands everything to `solarjax bench`."""
    parser = argparse.ArgumentParser(prog="scripts/bench", add_help=False)
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--update", action="store_true")
    found, rest = parser.parse_known_args(words)
    if not found.gate:
        solarjax(["bench", *words])
    if rest:
        parser.error(f"--gate takes no other options than --update; got {' '.join(rest)}")
    sys.exit(run_guarded(lambda: run_gate(found.update)))


if __name__ == "__main__":
    main(sys.argv[1:])
