"""What one node's KV cache holds, as its events tell: how often each block is stored.

The engine may store one block twice (two equal cold prompts at once) and then removes it twice, so blocks are counted.
If the count starts from nothing in the middle of the log, it can only be too low: stores and removals move it and the
truth alike, and a removal of what was never counted is ignored. So after a loss the index forgets everything and goes
on, and what it predicts is resident still is (at the position of the log it has read).

`vllm_xargs: {"kv_cache_report_mode": "full"}` announces blocks again without saying so and would break the counting;
the sidecar strips it.
"""

from __future__ import annotations

from collections.abc import Sequence

from solarjax.plane.placement.events import BlockRemoved, BlockStored, Cleared, Event

DEVICE_MEDIA = frozenset({None, "GPU"})
"""Media whose blocks a prompt can use as they are; vLLM says GPU on CPUs too. Offloaded copies do not count."""


class ResidentIndex:
    """Counts of blocks, by the 64-bit name of blocks.py."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.stored = 0
        self.removed = 0
        self.supported = True

    def __len__(self) -> int:
        return len(self._counts)

    def __contains__(self, block: int) -> bool:
        return block in self._counts

    def clear(self) -> None:
        """Forgets all blocks."""
        self._counts.clear()

    def apply(self, event: Event) -> None:
        """One event, in the order of the log."""
        if isinstance(event, Cleared):
            self._counts.clear()
            return
        if event.group_idx not in (None, 0):
            # With several groups of layers a hit needs a block in each; one count cannot tell that.
            self.supported = False
            self._counts.clear()
        if not self.supported or event.medium not in DEVICE_MEDIA:
            return
        counts = self._counts
        if isinstance(event, BlockStored):
            names = event.names()
            self.stored += len(names)
            for block in names:
                counts[block] = counts.get(block, 0) + 1
        elif isinstance(event, BlockRemoved):
            names = event.names()
            self.removed += len(names)
            for block in names:
                count = counts.get(block, 0)
                if count > 1:
                    counts[block] = count - 1
                elif count:
                    del counts[block]

    def discard(self, blocks: Sequence[int]) -> None:
        """Forgets blocks that turned out not to be there."""
        for block in blocks:
            self._counts.pop(block, None)

    def prefix(self, chain: Sequence[int]) -> int:
        """Number of leading blocks of a chain that are resident."""
        counts = self._counts
        for i, block in enumerate(chain):
            if block not in counts:
                return i
        return len(chain)
