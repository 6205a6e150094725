"""SIGKILL at random points during writes and cascades; then everything acknowledged must be there, and nothing half.

    python -m scripts.plane.crash --kills 200
    scripts/with_postgres python -m scripts.plane.crash --kills 200 --postgres

A writer process creates facts, hundreds of versions derived from them and artifacts made from those, and corrects,
supersedes, deletes or erases the facts; after each commit it says so on a pipe. It is killed after a random time, the
catalogue is opened again as it lies there and compared with what was said (crash_check.py), and the next writer goes on
in the same catalogue. On PostgreSQL that ends the client in the middle of its transaction; the server lives on.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from typing import Any

from scripts.plane.crash_check import TENANT, verify
from solarjax.plane.artifacts import ArtifactDraft, EmbeddingLocator
from solarjax.plane.capsules import CapsuleContent, CapsuleDraft, Provenance, VersionRef
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.commit import Intent

FAN = 24
ENDS = ("correct", "supersede", "delete", "erase")
_SOURCE = Provenance(source="crash")
_INTENT = Intent(TENANT, "crash")


def write_forever(url: str, pipe: int, seed: int) -> None:
    """Writes until killed; each commit is followed by one line on the pipe."""
    rng = random.Random(seed)
    catalogue = Catalogue(url)

    def say(result: Any) -> VersionRef:
        os.write(pipe, (json.dumps([result.epoch, result.operation, str(result.ref)]) + "\n").encode())
        return result.ref

    def create(name: str, sources: tuple[VersionRef, ...]) -> VersionRef:
        draft = CapsuleDraft(id=name, text=f"text of {name}", provenance=_SOURCE, depends_on=sources)
        return say(catalogue.create(_INTENT, draft))

    def attach(sources: list[VersionRef]) -> None:
        # The locator says what it was made from, for the check.
        locator = EmbeddingLocator(model="crash", dimensions=1, uri=" ".join(map(str, sources)))
        say(catalogue.attach(_INTENT, ArtifactDraft(locator=locator, made_from=tuple(sources))))

    content = CapsuleContent(text="another text", provenance=_SOURCE)
    for n in range(10**9):
        root = create(f"fact.{seed}.{n}", ())
        made = [root]
        for i in range(rng.choice((1, 4, FAN))):
            made.append(create(f"derived.{seed}.{n}.{i}", tuple(rng.sample(made, min(len(made), 2)))))
            if rng.random() < 0.2:
                attach(rng.sample(made, min(len(made), 3)))
        match rng.choice(ENDS):
            case "correct":
                say(catalogue.correct(_INTENT, root, content))
            case "supersede":
                say(catalogue.supersede(_INTENT, root, content))
                if rng.random() < 0.5:  # and then it turns out never to have been right
                    say(catalogue.correct(_INTENT, root, content))
            case "delete":
                say(catalogue.delete(_INTENT, root.id))
            case "erase":
                say(catalogue.delete(_INTENT, root.id, erase=True))


def run(url: str, kills: int, seed: int) -> dict[str, Any]:
    """Kills writers and checks after each.

    Returns:
      Counts, and the problems found.
    """
    rng = random.Random(seed)
    catalogue = Catalogue(url)
    catalogue.add_tenant(TENANT)
    catalogue.close()
    acknowledged: list[list[Any]] = []
    problems: list[str] = []
    unacknowledged, epoch = 0, 0
    for n in range(kills):
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(source)
            try:
                write_forever(url, sink, seed * 100_000 + n)
            finally:
                os._exit(3)
        os.close(sink)
        with os.fdopen(source, "rb") as pipe:
            said = pipe.readline()  # the child is writing now
            time.sleep(rng.random() * 0.12)
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            said += pipe.read()
        if not os.WIFSIGNALED(status):
            problems.append(f"the writer ended by itself: {said[-200:]!r}")
            break
        # A line cut off by the kill was not said.
        new = [json.loads(line) for line in said.split(b"\n")[:-1]]
        acknowledged += new
        problems += [f"kill {n}: {problem}" for problem in verify(url, new, epoch)]
        catalogue = Catalogue(url)
        epoch = catalogue.state(TENANT).epoch
        catalogue.close()
        unacknowledged = epoch - len(acknowledged)
    problems += verify(url, acknowledged)
    return {
        "kills": kills, "acknowledged": len(acknowledged), "committed_unacknowledged": unacknowledged,
        "operations": dict(Counter(entry[1] for entry in acknowledged)), "problems": problems,
    }  # fmt: skip


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgres", action="store_true", help="use the URL in SOLARJAX_TEST_POSTGRES")
    parser.add_argument("--url", help="an empty catalogue; default: a temporary SQLite file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or (os.environ["SOLARJAX_TEST_POSTGRES"] if given.postgres else f"{folder}/plane.db")
        result = run(url, given.kills, given.seed)
    print(json.dumps(result))
    return int(bool(result["problems"]))


if __name__ == "__main__":
    sys.exit(main())
