"""How a vLLM server is started: options, checked, as a command line and an environment.

On a machine without a GPU the values are those that were measured to work there (placemem-notes, sections 1 and 10).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from solarjax.replay.errors import BadOption

PYTHON_VARIABLE = "SOLARJAX_VLLM_PYTHON"
DEFAULT_MODEL = "smollm2-135m-instruct"
DEFAULT_PORT = 8000
DTYPES = ("auto", "bfloat16", "float16", "float32")
# What a replay sends to other servers is none of a local server's business.
_SECRETS = ("SOLARJAX_API_KEY", "OPENAI_API_KEY", "SOLARJAX_PLANE_TOKEN")
_LONGEST_SOCKET_PATH = 100  # the kernel's limit is 108 bytes with the terminating zero


def root() -> Path:
    """The checkout that this package lies in, or the current folder if it was installed elsewhere."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "scripts" / "setup_vllm").exists() else Path.cwd()


def default_model() -> Path:
    """Where scripts/setup_vllm puts the small model."""
    return root() / ".cache" / "models" / DEFAULT_MODEL


@dataclass(frozen=True)
class ServerOptions:
    """One server.

    Attributes:
      name: of the server, for `status` and `down`: letters, digits, `-`, `_`.
      model: folder of a model, or its name on the Hugging Face hub; None for the one of scripts/setup_vllm.
      served_name: name that clients use; None takes the last part of `model`.
      port: on the loopback interface, 1-65535; 0 picks a free one.
      dtype: one of DTYPES; `auto` follows the model, but is float32 on a CPU without bfloat16 arithmetic, where the
        emulation was measured to cost four times as much.
      max_model_len: most tokens of prompt and answer together.
      kv_cache_gib: memory for the key-value cache in GiB (CPU; a GPU server takes what is free).
      kv_blocks: number of cache blocks instead, to make the cache small; None for no limit of its own.
      block_size: tokens in a block; the CPU takes multiples of 32. None: 32 on the CPU, vLLM's choice on a GPU.
      prefix_caching: keep the keys and values of earlier prompts.
      cores: CPU cores to run on; empty for `threads` of those allowed.
      threads: number of cores (the last ones that this process may use); None for all. Without meaning with `cores`.
      eager: no compilation: 20 s instead of a minute to start, a third slower to answer. None: on the CPU only.
      gpu: None looks for nvidia-smi.
      kv_events: folder for the sockets of cache events (ipc, so that nobody else on the network can listen).
      dev_mode: also serve vLLM's endpoints for development, `/reset_prefix_cache` say.
      extra: further arguments, passed to vLLM as they are.

    Raises:
      BadOption: one of them is outside its range.
    """

    name: str = "default"
    model: str | None = None
    served_name: str | None = None
    port: int = DEFAULT_PORT
    dtype: str = "auto"
    max_model_len: int = 4096
    kv_cache_gib: int = 1
    kv_blocks: int | None = None
    block_size: int | None = None
    prefix_caching: bool = True
    cores: tuple[int, ...] = ()
    threads: int | None = None
    eager: bool | None = None
    gpu: bool | None = None
    kv_events: Path | None = None
    dev_mode: bool = False
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        if not 0 <= self.port <= 65535:
            raise BadOption(f"port is {self.port}; it must lie in 0..65535, 0 picks a free one")
        if self.dtype not in DTYPES:
            raise BadOption(f"dtype is {self.dtype!r}; known are {', '.join(DTYPES)}")
        for field in ("max_model_len", "kv_cache_gib", "kv_blocks", "block_size", "threads"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise BadOption(f"{field} is {value}; it must be at least 1")
        if self.block_size is not None and self.block_size % 32 and not self.on_gpu():
            raise BadOption(f"block_size is {self.block_size}; vLLM on the CPU takes multiples of 32")
        allowed = available_cores()
        if not set(self.cores) <= set(allowed):
            raise BadOption(f"cores are {self.cores}; this process may use {allowed}")
        if not self.cores and self.threads is not None and self.threads > len(allowed):
            raise BadOption(f"threads is {self.threads}; this process may use {len(allowed)} cores")
        if self.kv_events is not None and len(str(self._socket("replay"))) > _LONGEST_SOCKET_PATH:
            raise BadOption(f"the folder for cache events, {self.kv_events}, has too long a path for a socket")

    def on_gpu(self) -> bool:
        """Whether the server will use a GPU."""
        return has_gpu() if self.gpu is None else self.gpu

    def model_path(self) -> str:
        """The model as vLLM is told: an absolute folder, or a name of the hub.

        Raises:
          BadOption: it is a folder that does not exist or holds no model, or the default one was not set up.
        """
        if self.model is None and not default_model().is_dir():
            raise BadOption(
                f"no model given, and {default_model()} does not exist: run scripts/setup_vllm, or say --model"
            )
        given = self.model or str(default_model())
        folder = Path(given).expanduser()
        if folder.is_dir():
            if not (folder / "config.json").is_file():
                raise BadOption(f"{folder} holds no model: it has no config.json")
            return str(folder.resolve())
        # NAME or OWNER/NAME may be on the hub; anything else can only be a folder.
        if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", given) or given.startswith("."):
            raise BadOption(f"there is no folder {given}")
        return given

    def shown_name(self) -> str:
        """The name that clients use."""
        return self.served_name or Path(self.model_path()).name

    def used_cores(self) -> tuple[int, ...]:
        """CPU cores that the server is bound to."""
        allowed = available_cores()
        return self.cores or (allowed[-self.threads :] if self.threads else allowed)

    def used_dtype(self) -> str:
        """The type of weights and cache."""
        return "float32" if self.dtype == "auto" and not self.on_gpu() and not cpu_has_bfloat16() else self.dtype

    def command(self, python: str, port: int) -> list[str]:
        """The command line. python: interpreter that has vLLM.  port: the one in use, where `port` is 0."""
        cpu = not self.on_gpu()
        argv = [
            python, "-m", "vllm.entrypoints.openai.api_server", "--model", self.model_path(),
            "--served-model-name", self.shown_name(), "--host", "127.0.0.1", "--port", str(port),
            "--dtype", self.used_dtype(), "--max-model-len", str(self.max_model_len),
            "--enable-prefix-caching" if self.prefix_caching else "--no-enable-prefix-caching",
            "--enable-prompt-tokens-details", "--enable-request-id-headers", "--disable-uvicorn-access-log",
        ]  # fmt: skip
        if cpu if self.eager is None else self.eager:
            argv.append("--enforce-eager")
        block_size = self.block_size or (32 if cpu else None)
        if block_size is not None:
            argv += ["--block-size", str(block_size)]
        if self.kv_blocks is not None:
            argv += ["--num-gpu-blocks-override", str(self.kv_blocks)]  # vLLM's name for it on the CPU too
        if self.kv_events is not None:
            events = {
                "enable_kv_cache_events": True, "publisher": "zmq", "topic": "kv-events", "buffer_steps": 10000,
                "endpoint": f"ipc://{self._socket('events')}", "replay_endpoint": f"ipc://{self._socket('replay')}",
            }  # fmt: skip
            # A hash that is the same in every language, so that the reader of the events can compute it.
            argv += ["--kv-events-config", json.dumps(events), "--prefix-caching-hash-algo", "sha256_cbor"]
        return [*argv, *self.extra]

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The environment: `given` without keys and seeds, with what vLLM needs."""
        # PYTHONHASHSEED would change the hashes of cache blocks from one server to the next.
        made = {name: value for name, value in given.items() if name not in (*_SECRETS, "PYTHONHASHSEED")}
        made |= {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
        if Path(self.model_path()).is_dir():
            made |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        if self.dev_mode:
            made["VLLM_SERVER_DEV_MODE"] = "1"
        if not self.on_gpu():
            cores = self.used_cores()
            made |= {
                "VLLM_CPU_KVCACHE_SPACE": str(self.kv_cache_gib),
                "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
                "OMP_NUM_THREADS": str(len(cores)),
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # one process and 6 s of imports less
                "VLLM_USE_AOT_COMPILE": "0",  # its cache never hits on the CPU; the older one does
            }
        return made

    def _socket(self, what: str) -> Path:
        assert self.kv_events is not None
        return self.kv_events.absolute() / f"{self.name}.{what}.sock"


def check_name(name: str) -> None:
    """Raises BadOption unless `name` can be a server's: it becomes a file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", name):
        raise BadOption(f"{name!r} cannot be a server's name; use up to 41 letters, digits, - and _")


def has_gpu() -> bool:
    """Whether nvidia-smi lists a GPU."""
    if shutil.which("nvidia-smi") is None:
        return False
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.startswith("GPU")


def cpu_has_bfloat16() -> bool:
    """Whether the processor computes in bfloat16 itself, as far as the system tells."""
    try:
        return bool(re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", Path("/proc/cpuinfo").read_text(encoding="utf-8")))
    except OSError:
        return False


def available_cores() -> tuple[int, ...]:
    """CPU cores that this process may use, ascending."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def find_python() -> str:
    """The interpreter that has vLLM: $SOLARJAX_VLLM_PYTHON, `.venv-vllm`, or this one.

    Raises:
      BadOption: none of them.
    """
    given = os.environ.get(PYTHON_VARIABLE)
    if given:
        if shutil.which(given) is None:
            raise BadOption(f"{PYTHON_VARIABLE} is {given}, which cannot be run")
        return given
    own = root() / ".venv-vllm" / "bin" / "python"
    if own.exists():
        return str(own)
    if importlib.util.find_spec("vllm") is not None:
        return sys.executable
    raise BadOption(
        f"vLLM is not installed: run scripts/setup_vllm, or name an interpreter that has it in {PYTHON_VARIABLE}"
    )
