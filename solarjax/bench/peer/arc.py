"""ARC for the peer, with the semantics of `policies.joint.arc`: stamps instead of lists, ghosts searched by id."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solarjax.bench.peer.kernels import Eviction

CLOCK, SEEN_IN, HELD1, HELD2 = range(4)
"""Fields of the integer register: next stamp; list (1, 2) that the candidate's ghost was in, else 0; ghosts held."""


def arc(compiled: Callable) -> Eviction:
    """ARC as evaluated in the paper; it admits everything."""

    def init(K):
        in_t2, stamp = np.zeros(K, np.bool_), np.zeros(K, np.int32)
        ghost_id, ghost_stamp = np.full((2, K), -1, np.int32), np.zeros((2, K), np.int32)
        return in_t2, stamp, ghost_id, ghost_stamp, np.zeros(4, np.int32), np.zeros(1, np.float32)

    def touch(state, t, n, K, item, here, i0, i1, i2):
        in_t2, stamp, ghost_id, ghost_stamp, register, target = state
        clock = register[CLOCK]
        if i0 >= 0:
            in_t2[i0] = True
            stamp[i0] = clock
        if i1 >= 0:
            in_t2[i1] = True
            stamp[i1] = clock + 1
        if i2 >= 0:
            in_t2[i2] = True
            stamp[i2] = clock + 2
        register[CLOCK] = clock + 3
        register[SEEN_IN] = 0
        if here >= 0:
            in_t2[here] = True
            stamp[here] = clock + 3
            register[CLOCK] = clock + 4
            return
        # A pass without exits over consecutive ids is vectorised; where it was is only looked for when it was there.
        found1 = False
        found2 = False
        for i in range(K):
            found1 |= ghost_id[0, i] == item
            found2 |= ghost_id[1, i] == item
        if not (found1 or found2):
            return
        first = np.float32(register[HELD1])
        second = np.float32(register[HELD2])
        if found1:
            target[0] = min(target[0] + max(np.float32(1), second / max(first, np.float32(1))), np.float32(K))
            register[SEEN_IN] = 1
        else:
            target[0] = max(target[0] - max(np.float32(1), first / max(second, np.float32(1))), np.float32(0))
            register[SEEN_IN] = 2
        for which in range(2):
            for i in range(K):
                if ghost_id[which, i] == item:
                    ghost_id[which, i] = -1
                    register[HELD1 + which] -= 1

    def victim(state, t, K, ids, born, near):
        in_t2, stamp, ghost_id, ghost_stamp, register, target = state
        count = 0
        for i in range(K):
            count += not in_t2[i]
        over = np.float32(count) > target[0] or (register[SEEN_IN] == 2 and count == int(target[0]))
        from_t2 = count < K and (count == 0 or not over)
        oldest = -1
        for i in range(K):
            if in_t2[i] == from_t2 and (oldest < 0 or stamp[i] < stamp[oldest]):
                oldest = i
        return oldest

    def insert(state, slot, t, K, gone):
        in_t2, stamp, ghost_id, ghost_stamp, register, target = state
        clock = register[CLOCK]
        if gone >= 0:
            which = 1 if in_t2[slot] else 0
            place = 0
            if register[HELD1 + which] < K:
                for i in range(K):
                    if ghost_id[which, i] < 0:
                        place = i
                        break
                register[HELD1 + which] += 1
            else:
                for i in range(1, K):
                    if ghost_stamp[which, i] < ghost_stamp[which, place]:
                        place = i
            ghost_id[which, place] = gone
            ghost_stamp[which, place] = clock
        in_t2[slot] = register[SEEN_IN] > 0
        stamp[slot] = clock
        register[CLOCK] = clock + 1

    return Eviction(*map(compiled, (init, touch, victim, insert)))
