"""Writes the results part of the README from a report's stored runs: a table, a picture, and their command.

Usage: .venv/bin/python scripts/readme_table.py reports/quick
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from solarjax.cli.errors import run_guarded
from solarjax.report import stored, tables
from solarjax.report.figures import for_file
from solarjax.report.render import pictures
from solarjax.report.sections import Section, build

ROOT = Path(__file__).resolve().parents[1]
PICTURE = Path("reports/reference/readme.svg")
BEGIN, END = "<!-- results: written by scripts/readme_table.py -->", "<!-- end of results -->"


def markdown(table: tables.Table) -> str:
    """A table as Markdown; the best of a column in bold."""

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    rows = [[f"**{c.text}**" if c.tone == "best" else c.text for c in row] for row in table.rows]
    return "\n".join([line(table.head), line([":--"] + ["--:"] * (len(table.head) - 1)), *map(line, rows)])


def part(section: Section, image: str) -> str:
    """The README's results: what ran, the picture, the hit rates, the command of one run."""
    config = section.config
    command = section.runs[0].provenance["command"]
    seeds = len(config["seeds"])
    gates = {p["params"]["threshold"] for p in config["policies"] if "threshold" in p["params"]}
    return "\n\n".join(
        [
            BEGIN,
            f"![Hit rate of each policy: {section.title}]({image})",
            f"Hit rate on `{config['source']['name']}` ({config['source']['summary']}), mean over {seeds} seeds ± half "
            f"the 95 % interval; k = {config['k']}, quality `{config['quality']}`, feedback `{config['feedback']}`, "
            f"gate `{', '.join(sorted(gates))}`. The best online policy of a column is bold.",
            markdown(tables.matrix(section, section.primary)),
            f"The {'first ' if len(section.runs) > 1 else ''}command behind it: `{command}`.",
            END,
        ]
    )


def main() -> None:
    """Rewrites the README in place."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder of runs, such as reports/quick")
    parser.add_argument("--section", default="working_set", help="title of the section to show")
    arguments = parser.parse_args()
    sections = {section.title: section for section in build(stored.find(arguments.folder))}
    if arguments.section not in sections:
        parser.error(f"no section {arguments.section!r}; there are {', '.join(sections)}")
    section = sections[arguments.section]
    stored.write_text(ROOT / PICTURE, for_file(pictures(section)[0].svg))
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    shown = part(section, PICTURE.as_posix())
    stored.write_text(readme, re.sub(f"{BEGIN}.*{END}", lambda _: shown, text, flags=re.DOTALL))
    print(f"README.md and {PICTURE} show {section.title} of {arguments.folder}.")


if __name__ == "__main__":
    sys.exit(run_guarded(main))
