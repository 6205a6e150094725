"""`solarjax trace`: bring traces into the file format, and look into a trace file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solarjax.cli.errors import UserError

if TYPE_CHECKING:
    from solarjax.cli.sources import SourceSpec
    from solarjax.core.trace import Trace

app = typer.Typer(no_args_is_help=True, help="Import traces, and look into trace files.", rich_markup_mode=None)


class Kind(StrEnum):
    """What can be imported."""

    LOCOMO = "locomo"
    FRIENDSQA = "friendsqa"
    DIALSIM = "dialsim"
    JSONL = "jsonl"


@app.command("import")
def import_(
    kind: Annotated[Kind, typer.Argument(help="What the file is.")],
    file: Annotated[Path, typer.Argument(help="The file to read.")],
    out: Annotated[Path, typer.Option(help="A file (npz), or a folder where there are several dialogues.")],
    protocol: Annotated[str | None, typer.Option(help="For dialogues: P1, P2 (default), P3 or P1mb.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the protocol.")
    ] = None,
    conversation: Annotated[str | None, typer.Option(help="Only this dialogue.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the schedule, for dialogues.")] = 0,
    qa: Annotated[Path | None, typer.Option(help="Questions for DialSim.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Sentence encoder: a folder or a hub name.")] = None,
) -> None:
    """Turn a dialogue corpus or a JSON-lines file into trace files.

    \b
    Examples:
      solarjax trace import locomo locomo10.json --protocol P2 --set mean=100 --out traces/
      solarjax trace import locomo locomo10.json --conversation conv-26 --out conv-26.npz
      solarjax trace import jsonl mine.jsonl --out mine.npz
    """
    from solarjax.cli.sources import SourceSpec
    from solarjax.report.stored import check_writable
    from solarjax.traces.format import save

    source = SourceSpec(
        kind=kind.value,
        settings=tuple(settings or ()),
        files=(file,),
        qa=qa,
        protocol=protocol,
        encoder=encoder,
    )
    if kind is Kind.JSONL and (conversation is not None or seed):
        raise UserError("--conversation and --seed only apply to dialogues")
    source.config()  # finds a wrong parameter before the encoder is at work
    single = out.suffix == ".npz"
    check_writable(out.parent if single else out)
    traces = source.traces() if kind is Kind.JSONL else _dialogues(source, conversation, seed)
    if single and len(traces) > 1:
        names = ", ".join(str(trace.meta["conversation"]) for trace in traces)
        raise UserError(
            f"--out {out} is one file, but there are {len(traces)} dialogues ({names}); "
            "name a folder, or one of them with --conversation"
        )
    for trace in traces:
        path = out if single else out / f"{_file_name(trace.name)}.npz"
        save(trace, path)
        print(path)


@app.command("info")
def info(
    file: Annotated[Path, typer.Argument(help="A trace file (npz).")],
    prefill: Annotated[Path | None, typer.Option(help="Items (npy) in the cache from the start.")] = None,
) -> None:
    """Check a trace file and say what is in it.

    \b
    Example:
      solarjax trace info conv-26.npz
    """
    from solarjax.traces.format import load

    for name, value in describe(load(file, prefill)).items():
        print(f"{name:<22}{value}")


def describe(trace: Trace) -> dict[str, Any]:
    """Facts about a trace in words and numbers, in reading order."""
    import json

    import numpy as np

    from solarjax.core.trace import NO_ITEM, NO_QUERY, StepMode

    asked = trace.query != NO_QUERY
    scored = asked & (trace.mode >= StepMode.SCORED)
    relevant = np.diff(trace.relevant_indptr)
    offered = trace.arrival[trace.arrival != NO_ITEM]
    modes = {mode.name.lower(): int((trace.mode == mode).sum()) for mode in StepMode}
    facts: dict[str, Any] = {
        "name": trace.name,
        "steps": f"{trace.num_steps} ({', '.join(f'{n} {mode}' for mode, n in modes.items() if n)})",
        "items": f"{len(trace.items)} in {trace.items.shape[1]} dimensions",
        "arrivals": f"{len(offered)}, {len(offered) - len(np.unique(offered))} of them repeats",
        "questions": f"{len(trace.queries)} ({int(asked.sum())} asked, {int(scored.sum())} scored)",
        "relevant per question": f"mean {relevant.mean():.2f}, largest {relevant.max()}, none for "
        f"{int((relevant == 0).sum())}" if len(relevant) else "no questions",
        "relevance": "binary" if trace.relevant_grade is None else "graded",
    }  # fmt: skip
    if trace.category is not None:
        counts = np.bincount(trace.category, minlength=len(trace.category_names))
        facts["categories"] = ", ".join(
            f"{count} {name}" for name, count in zip(trace.category_names, counts, strict=True)
        )
    optional = ("arrival_on_miss", "answer_recall", "item_text", "query_text", "item_time", "query_time")
    facts["also holds"] = ", ".join(name for name in optional if getattr(trace, name) is not None) or "nothing else"
    facts.update({f"meta {name}": json.dumps(value) for name, value in trace.meta.items()})
    return facts


def _dialogues(source: SourceSpec, conversation: str | None, seed: int) -> list[Trace]:
    from dataclasses import replace

    from solarjax.core.params import check_name

    dialogues = source.conversations()
    if conversation is not None:
        check_name("conversation", conversation, [dialogue.name for dialogue in dialogues], UserError)
        dialogues = [dialogue for dialogue in dialogues if dialogue.name == conversation]
    streams = source.streams(dialogues)
    if seed == 0:
        return [stream.trace for stream in streams]
    return [replace(stream.trace, **stream.draw(seed)._asdict()) for stream in streams]


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_.=," else "_" for c in name).strip("_")
