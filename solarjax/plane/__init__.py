"""PlaceMem memory plane: capsules, their versions, what was derived from them, and what may still be reused.

A capsule is one identity for meaning and compute (PlaceMem, arXiv 2607.04089, sec. 3.1). The catalogue keeps immutable
versions of it, edges to whatever was derived from each version, and locators of reusable artifacts (embeddings, KV
segments, layer checkpoints). A correction ends a version and everything derived from it in one transaction.

Importing this package loads neither jax nor a web framework. README.md beside this file lists the guarantees and the
tests behind them.
"""

from __future__ import annotations

import importlib
from typing import Any

_LAZY = {
    "Catalogue": "solarjax.plane.catalogue",
    "Database": "solarjax.plane.database",
    "Retriever": "solarjax.plane.retriever",
    "PlaneClient": "solarjax.plane.client",
    "PlaneError": "solarjax.plane.errors",
    "create_app": "solarjax.plane.api.app",
}
__all__ = list(_LAZY)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'solarjax.plane' has no attribute {name!r}")
