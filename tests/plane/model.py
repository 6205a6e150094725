"""The catalogue in plain Python: dictionaries, recursion, and no idea of SQL. One tenant.

Windows and endings are judged version by version; a cascade is a walk over the derivations. Every operation works on a
copy, so one that is refused changes nothing.
"""

from __future__ import annotations

import copy

from solarjax.plane.errors import Conflict, NotFound

ALWAYS, FOREVER = float("-inf"), float("inf")


class Model:
    """versions: (name, number) -> begin, end, text, sources, born, endings [(epoch, from)]."""

    def __init__(self):
        self.epoch = 0
        self.versions = {}
        self.artifacts = []

    def attempt(self, operation, *arguments):
        """(result, None) or (None, class of the error); the state changes in the first case only."""
        before = copy.deepcopy((self.epoch, self.versions, self.artifacts))
        self.epoch += 1
        try:
            return getattr(self, operation)(*arguments), None
        except (Conflict, NotFound) as error:
            self.epoch, self.versions, self.artifacts = before
            return None, type(error)

    # -- operations: each returns (reference, set of versions ended) ------------------------------------------------

    def create(self, name, text, sources, begin, end, now):
        return self.write(name, text, sources, now if begin is None else begin, FOREVER if end is None else end), set()

    def correct(self, ref, text, sources):
        old = self.target(ref)
        window = old["begin"], self.end_of(ref)
        ended = self.end([ref], ALWAYS)
        return self.write(ref[0], text, sources, *window), ended

    def supersede(self, ref, text, at):
        old = self.target(ref)
        end = self.end_of(ref)
        if not old["begin"] < at < end:
            raise Conflict("not then")
        ended = self.end([ref], at)
        return self.write(ref[0], text, [], at, end), ended

    def expire(self, ref, at):
        self.target(ref)
        if at >= self.end_of(ref):
            raise Conflict("no later")
        return ref, self.end([ref], at)

    def delete(self, name):
        mine = sorted(ref for ref in self.versions if ref[0] == name)
        if not mine:
            raise NotFound(name)
        return mine[-1], self.end([ref for ref in mine if not self.empty(ref)], ALWAYS)

    def restore(self, ref):
        if ref not in self.versions:
            raise NotFound(ref)
        old = self.versions[ref]
        ends = [self.end_of(other) for other in self.versions if other[0] == ref[0] and not self.empty(other)]
        begin = max([old["begin"], *ends])
        return self.write(ref[0], old["text"], sorted(old["sources"]), begin, old["end"]), set()

    def link(self, source, derived):
        for ref in (source, derived):
            if ref not in self.versions or self.empty(ref):
                raise Conflict("gone")
        if self.end_of(derived) > self.end_of(source):
            raise Conflict("outlives")
        self.versions[derived]["sources"].add(source)
        return derived, set()

    def attach(self, sources):
        for ref in sources:
            if ref not in self.versions or self.empty(ref):
                raise Conflict("gone")
        self.artifacts.append(set(sources))
        return sources[0], set()

    # -- what holds -------------------------------------------------------------------------------------------------

    def in_force(self, at, epoch=None):
        epoch = self.epoch if epoch is None else epoch
        return {
            f"{name}@{number}"
            for (name, number), v in self.versions.items()
            if v["born"] <= epoch and v["begin"] <= at < v["end"]
            and not any(e <= epoch and start <= at for e, start in v["endings"])
        }  # fmt: skip

    def end_of(self, ref):
        v = self.versions[ref]
        return min([v["end"], *(start for _, start in v["endings"])])

    def empty(self, ref):
        return self.versions[ref]["begin"] >= self.end_of(ref)

    # -- parts ------------------------------------------------------------------------------------------------------

    def target(self, ref):
        if ref not in self.versions:
            raise NotFound(ref)
        if self.empty(ref):
            raise Conflict("ended")
        return self.versions[ref]

    def end(self, roots, at):
        ended = set()
        pending = list(roots)
        while pending:
            ref = pending.pop()
            v = self.versions[ref]
            if ref in ended or (ref not in roots and any(start <= at for _, start in v["endings"])):
                continue
            ended.add(ref)
            pending += [other for other, w in self.versions.items() if ref in w["sources"]]
        for ref in ended:
            self.versions[ref]["endings"].append((self.epoch, at))
        return ended

    def write(self, name, text, sources, begin, end):
        for ref in sources:
            if ref not in self.versions or self.empty(ref):
                raise Conflict("source")
            begin, end = max(begin, self.versions[ref]["begin"]), min(end, self.end_of(ref))
        if begin >= end:
            raise Conflict("empty")
        for other in self.versions:
            if other[0] == name and not self.empty(other):
                if self.versions[other]["begin"] < end and begin < self.end_of(other):
                    raise Conflict("overlap")
        number = max([n for m, n in self.versions if m == name], default=0) + 1
        self.versions[name, number] = {
            "begin": begin, "end": end, "text": text, "sources": set(sources), "born": self.epoch, "endings": [],
        }  # fmt: skip
        return name, number
