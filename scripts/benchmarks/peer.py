"""The peer: what a careful user would write instead of the engine, a numba loop compiled for one core.

It does the same work per step as the engine: top-3 with earliest-inserted ties, relevance of the retrieved, the
same sums of metrics, duplicate arrivals, and for SOLAR the release's gate, ageing, exact Beta draws and novelty. One
lane after the other, so a lane's tables stay in the core's cache.
"""

from __future__ import annotations

import numba as nb
import numpy as np


@nb.njit(fastmath=True, inline="always")
def _top3(row, ids, born, n):
    """Slots and cosines of the three best residents; ties to the earliest inserted."""
    b0 = b1 = b2 = -2.0
    i0 = i1 = i2 = -1
    for i in range(n):
        s = row[ids[i]]
        if s > b0 or (s == b0 and born[i] < born[i0]):
            b2, i2, b1, i1, b0, i0 = b1, i1, b0, i0, s, i
        elif s > b1 or (s == b1 and i1 >= 0 and born[i] < born[i1]):
            b2, i2, b1, i1 = b1, i1, s, i
        elif s > b2 or (s == b2 and i2 >= 0 and born[i] < born[i2]):
            b2, i2 = s, i
    return b0, b1, b2, i0, i1, i2


@nb.njit(fastmath=True, inline="always")
def _account(sums, t, T, relevant, total, ids, b0, b1, b2, i0, i1, i2):
    """Adds one scored query to the sums; returns its miss cost."""
    found = 0.0
    count = 0
    cosine = 0.0
    for slot, value in ((i0, b0), (i1, b1), (i2, b2)):
        if slot >= 0:
            count += 1
            found += relevant[ids[slot]]
            cosine += min(max(value, 0.0), 1.0)
    hit = 1.0 if found > 0 else 0.0
    recall = found / total if total > 0 else 0.0
    precision = found / max(count, 1)
    sums[0] += 1
    sums[1] += hit
    sums[2] += hit if t >= T // 2 else 0.0
    sums[3] += recall
    sums[4] += precision
    sums[5] += 2 * precision * recall / (precision + recall) if found > 0 else 0.0
    sums[6] += min(max(b0, 0.0), 1.0) if i0 >= 0 else 0.0
    sums[7] += cosine / max(count, 1)
    sums[8] += 1 - hit
    return 1 - hit


@nb.njit(fastmath=True)
def fifo(similarity, relevance, total, K):
    """FIFO on one lane: query t, then item t arrives. Returns the sums."""
    T = similarity.shape[0]
    ids = np.full(K, -1, np.int32)
    born = np.zeros(K, np.int32)
    sums = np.zeros(12)
    n = 0
    head = 0
    for t in range(T):
        b0, b1, b2, i0, i1, i2 = _top3(similarity[t], ids, born, n)
        _account(sums, t, T, relevance[t], total[t], ids, b0, b1, b2, i0, i1, i2)
        here = False
        for i in range(n):
            here = here or ids[i] == t
        sums[9] += 1
        if here:
            continue
        if n < K:
            j = n
            n += 1
        else:
            j = head
            head = (head + 1) % K
            sums[11] += 1
        ids[j] = t
        born[j] = t
        sums[10] += 1
    return sums


@nb.njit(fastmath=True)
def solar(similarity, relevance, total, near, K, seed):
    """SOLAR as released on one lane."""
    np.random.seed(seed)
    T = similarity.shape[0]
    ids = np.full(K, -1, np.int32)
    born = np.zeros(K, np.int32)
    alpha = np.full(K, 2.0, np.float32)
    beta = np.ones(K, np.float32)
    window = np.zeros(30, np.float32)
    sums = np.zeros(12)
    n = 0
    c = 0.0
    lam = 5.0
    tau = np.sqrt(lam)
    loss = 0.0
    start = min(max(K // 2, 5), 25)
    for t in range(T):
        b0, b1, b2, i0, i1, i2 = _top3(similarity[t], ids, born, n)
        _account(sums, t, T, relevance[t], total[t], ids, b0, b1, b2, i0, i1, i2)
        for i in range(n):
            if i == i0 or i == i1 or i == i2:
                alpha[i] += 1
            elif (t + 1) % 5 == 0:
                beta[i] += 0.05
        # Information gain of the arriving item.
        here = False
        t0 = t1 = t2 = t3 = t4 = -2.0
        for i in range(n):
            here = here or ids[i] == t
            s = near[t, ids[i]]
            if s > t0:
                t4, t3, t2, t1, t0 = t3, t2, t1, t0, s
            elif s > t1:
                t4, t3, t2, t1 = t3, t2, t1, s
            elif s > t2:
                t4, t3, t2 = t3, t2, s
            elif s > t3:
                t4, t3 = t3, s
            elif s > t4:
                t4 = s
        gain = 1.0
        if n > 0:
            top = 0.0
            for s in (t0, t1, t2, t3, t4):
                if s > -2.0:
                    top += s
            mean = min(max(top / min(n, 5), 0.0), 1.0)
            gain = max(0.0, 0.6 * (1 - min(max(t0, 0.0), 1.0)) - 0.4 * mean)
        window[t % 30] = gain
        if t >= 29:
            mean = 0.0
            for i in range(30):
                mean += window[i]
            mean /= 30
            var = 0.0
            for i in range(30):
                var += (window[i] - mean) ** 2
            spread = max(2 * np.sqrt(var / 30), 0.1)
            loss = spread if loss == 0 else 0.7 * loss + 0.3 * spread
            tau = min(max(np.sqrt(2 * lam / loss), 0.1), 5.0)
        c += gain
        sums[9] += 1
        if not (c > tau or n < start):
            continue
        c = 0.0
        if here:
            continue
        if n < K:
            j = n
            n += 1
        else:
            best = 1e9
            j = 0
            for i in range(K):
                m0 = m1 = m2 = -2.0
                for o in range(K):
                    if o != i:
                        s = near[ids[i], ids[o]]
                        if s > m0:
                            m2, m1, m0 = m1, m0, s
                        elif s > m1:
                            m2, m1 = m1, s
                        elif s > m2:
                            m2 = s
                novelty = min(max(1 - (m0 + m1 + m2) / 3, 0.0), 1.0)
                score = np.random.beta(alpha[i], beta[i]) + 0.3 * novelty
                if score < best:
                    best = score
                    j = i
            sums[11] += 1
        ids[j] = t
        born[j] = t
        alpha[j] = 2.0
        beta[j] = 1.0
        sums[10] += 1
    return sums


@nb.njit(fastmath=True)
def run_fifo(similarity, relevance, total, near, K):
    """All lanes, one after the other: `[B, 12]` sums. `near` is not used."""
    out = np.empty((similarity.shape[0], 12))
    for b in range(similarity.shape[0]):
        out[b] = fifo(similarity[b], relevance[b], total[b], K)
    return out


@nb.njit(fastmath=True)
def run_solar(similarity, relevance, total, near, K):
    """All lanes, one after the other: `[B, 12]` sums."""
    out = np.empty((similarity.shape[0], 12))
    for b in range(similarity.shape[0]):
        out[b] = solar(similarity[b], relevance[b], total[b], near[b], K, b)
    return out
