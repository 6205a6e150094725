"""The public data sets: what they are, where they come from, and whether the copy at hand is the right one.

Nothing is bundled. A data folder holds one subfolder per data set (`locomo/`, `friendsqa/`, `dialsim/`,
`solar_synthetic/`). It is looked for in this order: the argument, the environment variable SOLARJAX_DATA,
`shared/data` beside the checkout.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from solarjax.core.trace import TraceError
from solarjax.traces import dialsim, friendsqa, locomo
from solarjax.traces.checksums import CHECKSUMS
from solarjax.traces.conversation import Conversation
from solarjax.traces.files import replacing
from solarjax.traces.parameters import unknown

DATA_VARIABLE = "SOLARJAX_DATA"
_RAW = "https://raw.githubusercontent.com"  # revisions are pinned, so the sums below stay true
_TIMEOUT_SECONDS = 60.0
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Dataset:
    """One public data set.

    folder: below the data folder.      description, licence: one line each; licence as its authors state it.
    source: page to get it from by hand.
    url: where its files lie, without the file name; None if they cannot be fetched one by one.
    read: importer of one file, or None where the files are traces already (`format.load`).
    """

    folder: str
    description: str
    licence: str
    source: str
    url: str | None
    read: Callable[[Path], tuple[Conversation, ...]] | None

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of its files below the data folder."""
        return tuple(path for path in CHECKSUMS if path.startswith(f"{self.folder}/"))

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(CHECKSUMS[path][0] for path in self.files)


DATASETS: Mapping[str, Dataset] = {
    "locomo": Dataset(
        folder="locomo",
        description="10 two-person dialogues, 5,882 turns, 1,986 questions (Maharana et al. 2024)",
        licence="CC BY-NC 4.0",
        source="https://github.com/snap-research/locomo (data/locomo10.json)",
        url=f"{_RAW}/snap-research/locomo/3eb6f2c585f5e1699204e3c3bdf7adc5c28cb376/data/",
        read=locomo.load,
    ),
    "friendsqa": Dataset(
        folder="friendsqa",
        description="2 streams of television scenes, 5,183 utterances, 2,383 questions (Yang and Choi 2019)",
        licence="Apache-2.0",
        source="https://github.com/emorynlp/FriendsQA (dat/)",
        url=f"{_RAW}/emorynlp/FriendsQA/867369599b675cccad7c9d167abc2de0164b097e/dat/",
        read=friendsqa.load,
    ),
    "dialsim": Dataset(
        folder="dialsim",
        description="scripts of 3 television series as dated sessions, without questions (Kim et al. 2024)",
        licence="none stated; the scripts belong to their owners",
        source="https://github.com/jiho283/Simulator; as text https://github.com/ysunbp/SOLAR (raw/DialSim/)",
        url=f"{_RAW}/ysunbp/SOLAR/93ed9596ca05a93d6676ecb36ad617098b3eba6d/raw/DialSim/",
        read=dialsim.load,
    ),
    "solar-synthetic": Dataset(
        folder="solar_synthetic",
        description="the SOLAR authors' synthetic workloads, seeds 42 and 1337, packed as arrays",
        licence="Apache-2.0",
        source="https://github.com/ysunbp/SOLAR (synthetic_workloads/datasets/), see solar_arrays.py",
        url=None,
        read=None,
    ),
}


def data_dir(folder: str | Path | None = None) -> Path:
    """The data folder: `folder`, else SOLARJAX_DATA, else `shared/data` beside the checkout.

    Raises:
      TraceError: if that folder does not exist; says where was looked and what to set.
    """
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    chosen = Path(folder or os.environ.get(DATA_VARIABLE) or beside)
    if not chosen.is_dir():
        raise TraceError(f"no data folder at {chosen}; give one as an argument or set {DATA_VARIABLE}")
    return chosen


def find(name: str, folder: str | Path | None = None) -> tuple[Path, ...]:
    """The files of a data set, unchecked.

    Args:
      name: a key of `DATASETS`.
      folder: the data folder, see `data_dir`.

    Returns:
      Their paths, in the order of `Dataset.files`.

    Raises:
      TraceError: if the name is unknown or a file is missing; says where to get it.
    """
    dataset = _dataset(name)
    root = data_dir(folder)
    paths = tuple(root / file for file in dataset.files)
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise TraceError(f"{name}: {len(missing)} of {len(paths)} files missing, first {missing[0]}. {_by_hand(name)}")
    return paths


def verify(name: str, folder: str | Path | None = None) -> tuple[Path, ...]:
    """The files of a data set, with size and SHA-256 checked.

    Args, Returns: as `find`.

    Raises:
      TraceError: as `find`, and if any file differs from the published one; names each.
    """
    paths = find(name, folder)
    wrong = [
        f"{path} has SHA-256 {found}, expected {CHECKSUMS[file][1]}"
        for path, file in zip(paths, DATASETS[name].files, strict=True)
        if (found := sha256(path)) != CHECKSUMS[file][1]
    ]
    if wrong:
        raise TraceError(f"{name}: {len(wrong)} of {len(paths)} files differ: {'; '.join(wrong)}")
    return paths


def conversations(name: str, folder: str | Path | None = None) -> tuple[Conversation, ...]:
    """All conversations of a data set, imported.

    Args:
      name: a key of `DATASETS` that holds conversations.
      folder: the data folder, see `data_dir`.

    Raises:
      TraceError: as `find` and the importers, or if the data set holds traces instead of conversations.
    """
    read = _dataset(name).read
    if read is None:
        raise TraceError(f"{name} holds traces, not conversations; load its files with solarjax.traces.format.load")
    return tuple(conversation for path in find(name, folder) for conversation in read(path))


def download(name: str, folder: str | Path) -> tuple[Path, ...]:
    """Fetches the files of a data set that are not there yet, or not right.

    Each file is checked against its SHA-256 before it takes its name, so a cut or changed download leaves
    nothing.

    Args:
      name: a key of `DATASETS`.
      folder: data folder to fill; made if needed.

    Returns:
      The files, as `verify`.

    Raises:
      TraceError: if the data set has no direct download, the network fails, or a file is not the published
        one.
    """
    dataset = _dataset(name)
    if dataset.url is None:
        raise TraceError(f"{name} has no direct download. {_by_hand(name)}")
    root = Path(folder)
    for file in dataset.files:
        path = root / file
        if not path.is_file() or sha256(path) != CHECKSUMS[file][1]:
            _fetch(name, dataset.url + path.name, path, *CHECKSUMS[file])
    return verify(name, root)


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(name: str, url: str, path: Path, size: int, digest: str) -> None:
    found = hashlib.sha256()
    received = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response, replacing(path) as file:
            # One block past the right size is enough to know that the file is not the one expected.
            while received <= size and (block := response.read(_BLOCK)):
                received += len(block)
                found.update(block)
                file.write(block)
            if found.hexdigest() != digest:
                raise TraceError(
                    f"{name}: {url} is not the published file: {received} bytes with SHA-256 "
                    f"{found.hexdigest()}, expected {size} bytes with {digest}. "
                    f"Nothing was kept. {_by_hand(name)}"
                )
    except (OSError, http.client.HTTPException) as error:
        raise TraceError(f"{name}: cannot download {url} to {path}: {error}. {_by_hand(name)}") from None


def _dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise TraceError(unknown("data set", name, DATASETS))
    return DATASETS[name]


def _by_hand(name: str) -> str:
    dataset = DATASETS[name]
    return (
        f"Get it from {dataset.source}, put the files into {dataset.folder}/ of the data folder, and "
        f"name the data folder as an argument or in {DATA_VARIABLE}."
    )
