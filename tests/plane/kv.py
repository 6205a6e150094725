"""KV events as an engine makes them, and a plain engine: what it keeps, numbers and can repeat."""

from __future__ import annotations

from collections import Counter, deque

import msgspec


def message(made, *events, rank=0):
    return msgspec.msgpack.encode([made, list(events), rank])


def stored(*blocks, **more):
    return {"type": "BlockStored", "block_hashes": list(blocks), "parent_block_hash": None, "token_ids": [1],
            "block_size": 32, "medium": "GPU", "group_idx": 0, **more}  # fmt: skip


def removed(*blocks, **more):
    return {"type": "BlockRemoved", "block_hashes": list(blocks), "medium": "GPU", "group_idx": 0, **more}


CLEARED = {"type": "AllBlocksCleared"}


class Engine:
    """What an engine does: keeps blocks (a block may be there twice), numbers its batches from 0 after each start, and
    can repeat the last few."""

    def __init__(self, buffer):
        self.buffer_size = buffer
        self.now = 100.0
        self.truth = {}
        self.start()

    def start(self):
        self.blocks = Counter()
        self.number = 0
        self.buffer = deque(maxlen=self.buffer_size)

    def publish(self, *events):
        self.now += 1.0
        payload = message(self.now, *events)
        self.truth[payload] = Counter(self.blocks)
        self.buffer.append((self.number, payload))
        self.number += 1
        return self.number - 1, payload

    def replay(self, begin):
        return [(number, payload) for number, payload in self.buffer if number >= begin]
