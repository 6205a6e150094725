"""Where the traces of a run come from: a generated workload, trace files, or dialogues under a protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solarjax.cli.errors import UserError
from solarjax.cli.parsing import pairs

if TYPE_CHECKING:
    import numpy as np

    from solarjax.core.source import Source
    from solarjax.core.trace import Trace
    from solarjax.traces.conversation import Conversation
    from solarjax.traces.protocols import ProtocolStream

WORKLOAD, TRACE, JSONL = "workload", "trace", "jsonl"
DIALOGUES = ("locomo", "friendsqa", "dialsim")
DEFAULT_PROTOCOL = "P2"


@dataclass(frozen=True)
class SourceSpec:
    """A source as the command line names it.

    kind: 'workload', 'trace', 'jsonl', or one of `DIALOGUES`.  name: of the workload.
    settings: NAME=VALUE pairs.
    files: traces or dialogues.  prefill: one per trace file, or none.  qa: questions, for DialSim.
    protocol: for dialogues.  encoder: folder or name of a sentence encoder, None for all-MiniLM-L6-v2.
    """

    kind: str
    name: str = ""
    settings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    prefill: tuple[Path, ...] = ()
    qa: Path | None = None
    protocol: str | None = None
    encoder: str | None = None

    def __post_init__(self) -> None:
        pairs("--set", self.settings)
        if self.settings and self.kind in (TRACE, JSONL):
            raise UserError(f"--set {self.settings[0]}: a {self.kind} file has no parameters; it is replayed as it is")
        if self.protocol and self.kind not in DIALOGUES:
            raise UserError(f"--protocol {self.protocol} only applies to dialogues ({', '.join(DIALOGUES)})")
        if self.prefill and self.kind != TRACE:
            raise UserError("--prefill only applies to --trace")
        if self.prefill and len(self.prefill) != len(self.files):
            raise UserError(
                f"--prefill is given {len(self.prefill)} time(s) for {len(self.files)} --trace; give one each, or none"
            )
        if self.qa and self.kind != "dialsim":
            raise UserError("--qa only applies to --dialsim")
        if self.encoder and self.kind in (WORKLOAD, TRACE):
            raise UserError(f"--encoder does not apply: a {self.kind} holds no text to encode")

    def config(self) -> dict[str, Any]:
        """JSON-able identity: resolved parameters, contents of the files, encoder.

        Raises:
          WorkloadError, TraceError, EncoderError: a parameter, file or encoder that cannot be used.
        """
        from solarjax.traces.datasets import sha256

        files = [{"name": path.name, "sha256": _of_file(sha256, path)} for path in self.files]
        for record, path in zip(files, self.prefill, strict=False):
            record["prefill"] = _of_file(sha256, path)
        if self.qa is not None:
            files.append({"name": self.qa.name, "sha256": _of_file(sha256, self.qa)})
        base: dict[str, Any] = {
            "kind": self.kind,
            "name": self.name or self.kind,
            "protocol": None,
            "params": {},
            "files": files,
        }
        if self.kind == WORKLOAD:
            from solarjax.workloads.registry import WORKLOADS, make

            workload = make(self.name, **pairs("--set", self.settings))
            return {**base, "params": dict(workload.params), "summary": WORKLOADS[self.name].summary}
        if self.kind in DIALOGUES:
            protocol = self.protocol or DEFAULT_PROTOCOL
            spec = _protocol(protocol)
            from solarjax.traces.parameters import resolve

            params = resolve(protocol, spec.parameters, pairs("--set", self.settings))
            about = {"protocol": protocol, "params": params, "summary": spec.summary}
            return {**base, **about, "encoder": self._encoder()}
        summary = "recorded trace" if len(self.files) == 1 else f"{len(self.files)} recorded traces"
        # Whether a JSONL file needs the default encoder is known only once it is read; its name will do then.
        extra = {"encoder": self._encoder() if self.encoder else "default"} if self.kind == JSONL else {}
        return {**base, "name": ", ".join(path.stem for path in self.files), "summary": summary, **extra}

    def arguments(self) -> list[str]:
        """The words of a command line that name this source."""
        words = ["--workload", self.name] if self.kind == WORKLOAD else []
        for i, path in enumerate(self.files):
            words += [f"--{self.kind}", str(path)]
            if self.prefill:
                words += ["--prefill", str(self.prefill[i])]
        for option, value in (("--qa", self.qa), ("--protocol", self.protocol), ("--encoder", self.encoder)):
            words += [] if value is None else [option, str(value)]
        for pair in self.settings:
            words += ["--set", pair]
        return words

    def open(self) -> Source:
        """Loads or builds everything. Raises as `config`, and SweepError."""
        from solarjax.workloads.sources import GeneratedSource, RecordedSource

        if self.kind == WORKLOAD:
            from solarjax.workloads.registry import make

            return GeneratedSource(make(self.name, **pairs("--set", self.settings)))
        if self.kind in DIALOGUES:
            streams = self.streams()
            return RecordedSource([stream.trace for stream in streams], draws=[stream.draw for stream in streams])
        return RecordedSource(self.traces())

    def traces(self) -> list[Trace]:
        """The traces of trace or JSONL files. Raises `TraceError`."""
        if self.kind == JSONL:
            from solarjax.traces import jsonl

            return [jsonl.load(path, self._encode()) for path in self.files]
        from solarjax.traces.format import load

        prefill: Sequence[Path | None] = self.prefill or [None] * len(self.files)
        return [load(path, before) for path, before in zip(self.files, prefill, strict=True)]

    def conversations(self) -> list[Conversation]:
        """The dialogues of all files. Raises `TraceError`."""
        from solarjax.traces import dialsim, friendsqa, locomo

        if self.kind == "dialsim":
            return [c for path in self.files for c in dialsim.load(path, self.qa)]
        load = {"locomo": locomo.load, "friendsqa": friendsqa.load}[self.kind]
        return [conversation for path in self.files for conversation in load(path)]

    def streams(self, dialogues: Sequence[Conversation] | None = None) -> list[ProtocolStream]:
        """These dialogues (default: all) under the protocol. Raises `TraceError`, `EncoderError`."""
        from solarjax.traces.protocols import build

        protocol, settings = self.protocol or DEFAULT_PROTOCOL, pairs("--set", self.settings)
        chosen = self.conversations() if dialogues is None else dialogues
        return [build(dialogue, protocol, settings, self._encode()) for dialogue in chosen]

    def _encode(self) -> Callable[[Sequence[str]], np.ndarray]:
        from solarjax.encoders.minilm import encode

        return lambda texts: encode(texts, model=self.encoder)

    def _encoder(self) -> str:
        from solarjax.encoders.weights import fingerprint, locate

        return fingerprint(locate(self.encoder))


def _of_file(digest: Callable[[Path], str], path: Path) -> str:
    if path.is_dir():
        raise UserError(f"{path} is a folder; a file is needed")
    try:
        return digest(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None


def _protocol(name: str) -> Any:
    from solarjax.traces.parameters import unknown
    from solarjax.traces.protocols import PROTOCOLS

    if name not in PROTOCOLS:
        raise UserError(unknown("protocol", name, PROTOCOLS))
    return PROTOCOLS[name]
