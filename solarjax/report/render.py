"""HTML, Markdown and CSV of stored runs. Reads results, computes statistics, draws; never runs a policy."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solarjax.report import tables
from solarjax.report.correlation import correlations
from solarjax.report.figures import draw, for_file, for_page, to_png, to_svg
from solarjax.report.sections import Section, build
from solarjax.report.stored import StoredRun, find, write_bytes, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HTML, MARKDOWN, CSV, FIGURES = "index.html", "report.md", "results.csv", "figures"
TITLE = "What should an agent remember?"


@dataclass(frozen=True)
class Picture:
    """One figure of a section: its file name without ending, what it shows, and the drawing."""

    name: str
    label: str
    figure: Figure

    @cached_property
    def svg(self) -> str:
        """The drawing; see `figures.to_svg`."""
        return to_svg(self.figure, self.name)

    def inline(self) -> str:
        """SVG for pasting into a page."""
        return for_page(self.svg)


def report(root: Path, title: str = TITLE, remarks: Sequence[str] = ()) -> list[Path]:
    """Renders every run in `root` or below it into `root`.

    Args:
      root: folder that `solarjax run --out` or `scripts/reproduce` wrote to.
      title: heading of the report.
      remarks: paragraphs shown near the top (what could not run, say).

    Returns:
      The files written: index.html (self-contained), report.md, results.csv and figures/*.svg.

    Raises:
      StoreError: if there is nothing to report, a run is damaged, or `root` cannot be written to.
    """
    sections = build(find(root))
    shown = [pictures(section) for section in sections]
    context = _context(sections, shown, title, remarks)
    written = []
    for name, text in (
        (HTML, template("report.html").render(context)),
        (MARKDOWN, template("report.md").render(context)),
        (CSV, results_csv(sections)),
    ):
        write_text(root / name, text)
        written.append(root / name)
    for of_section in shown:
        written += write_pictures(of_section, root / FIGURES, png=False)
    return written


def pictures(section: Section) -> list[Picture]:
    """The section's figures: the hit rate, and its paired difference to the baseline."""
    name = section.describe(section.primary)
    found = [Picture(section.slug, f"{section.title}: {name}", draw(section, section.primary))]
    if section.baseline is not None and len(section.policies) > 1:
        label = f"{section.title}: {name}, difference to {section.baseline}"
        found.append(Picture(f"{section.slug}-difference", label, draw(section, section.primary, compare=True)))
    return found


def write_pictures(shown: Sequence[Picture], folder: Path, png: bool = True) -> list[Path]:
    """Writes figures as SVG (and PNG) files; returns their paths."""
    written = []
    for picture in shown:
        path = folder / f"{picture.name}.svg"
        write_text(path, for_file(picture.svg))
        written.append(path)
        if png:
            path = folder / f"{picture.name}.png"
            write_bytes(path, to_png(picture.figure))
            written.append(path)
    return written


def _context(
    sections: Sequence[Section], shown: Sequence[list[Picture]], title: str, remarks: Sequence[str]
) -> dict[str, Any]:
    runs: list[StoredRun] = [run for section in sections for run in section.runs]
    return {
        "title": title,
        "remarks": remarks,
        "overview": tables.overview(sections),
        "policies": tables.policy_list(sections),
        "sections": [_describe(s, p) for s, p in zip(sections, shown, strict=True)],
        "runs": [run.provenance for run in runs],
        "seconds": sum(run.provenance["seconds"] for run in runs),
        "lanes": sum(int(run.data["hit_rate"].size) for run in runs),
        "folder": FIGURES,
    }


def _describe(section: Section, shown: Sequence[Picture]) -> dict[str, Any]:
    config = section.config
    source = config["source"]
    matrices = [
        tables.matrix(section, section.primary),
        tables.differences(section),
        tables.headrooms(section),
    ]
    matrices += [tables.matrix(section, name) for name in ("store_rate", "admissions")]
    matrices.append(correlations(section))
    every = [run.config["source"]["params"] for run in section.runs]
    settings = [
        ("quality (decides the miss cost)", config["quality"]),
        ("feedback to the policy", config["feedback"]),
        ("retrieved items k", config["k"]),
        ("repeated over", section.replication),
        ("root seed", config["root_seed"]),
        *((name, v) for name, v in source["params"].items() if all(p[name] == v for p in every)),
    ]
    return {
        "title": section.title,
        "slug": section.slug,
        "summary": source["summary"],
        "settings": [(str(k), str(v)) for k, v in settings],
        "tables": [table for table in matrices if table is not None],
        "details": [t for t in (tables.categories(section), tables.measures(section)) if t is not None],
        "pictures": shown,
    }


def template(name: str, *folders: Path) -> Any:
    """A jinja2 template of this package, or of `folders`, which come first; text is escaped in HTML only."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [*(jinja2.FileSystemLoader(folder) for folder in folders), jinja2.PackageLoader("solarjax.report")]
        ),
        autoescape=name.endswith(".html"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Markdown reads a bar as the end of a cell.
    environment.filters["bars"] = lambda text: str(text).replace("|", r"\|").replace("\n", " ")
    return environment.get_template(name)


def results_csv(sections: Sequence[Section]) -> str:
    """Every mean, interval and paired difference, one row per workload, policy, point and measure."""
    return csv_text([row for section in sections for row in tables.long_rows(section)])


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows (at least one) of the same columns as CSV with a head."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
