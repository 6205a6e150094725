"""solarjax: a laboratory for deciding what an LLM agent should remember.

`import solarjax` is cheap; names load their module on first use (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_LAZY = {
    "Trace": "solarjax.core.trace",
    "TraceError": "solarjax.core.trace",
    "StepMode": "solarjax.core.trace",
    "sweep": "solarjax.core.sweep",
    "PolicyCase": "solarjax.policies.registry",
}
__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'solarjax' has no attribute {name!r}")
