"""The report in the repository: small enough to look at where repositories are looked at."""

from pathlib import Path

from experiments import registry, store

REPORT = Path(__file__).resolve().parents[2] / "reports" / "paper"
LIMIT = 2_000_000
LOCAL = {"runs", "results.csv"}
"""What a run leaves there and the repository does not keep."""


def test_no_file_is_above_two_megabytes():
    files = [f for f in REPORT.rglob("*") if f.is_file() and f.relative_to(REPORT).parts[0] not in LOCAL]
    assert REPORT / "index.html" in files and len(files) > 20
    assert {str(f.relative_to(REPORT)): f.stat().st_size for f in files if f.stat().st_size >= LIMIT} == {}


def test_stored_rows_have_the_digits_that_their_record_says():
    held = {n: s for n, s in store.load_all(REPORT, registry.IDS).items() if s.record.get("digits") == store.DIGITS}
    assert len(held) > 5
    for name, stored in held.items():
        text = (REPORT / store.DATA / name / store.ROWS).read_text(encoding="utf-8")
        assert text == store.rows_text(stored.rows), name
