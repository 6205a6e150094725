"""The sidecar keeps hot sets if it is told to: learnt beside the requests, shown, used, and free of what ended."""

import subprocess
import sys
import threading
import zlib
from contextlib import closing

import numpy as np
import pytest

from solarjax.plane.api.app import create_app
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.client import PlaneClient
from solarjax.plane.commit import Intent
from solarjax.plane.errors import Invalid
from solarjax.plane.services import build
from solarjax.plane.settings import load
from solarjax.plane.vectors import Embedded
from tests.plane.front import front
from tests.plane.helpers import content, ref


class Words:
    """An encoder that gives each text a direction of its own, and may be held."""

    def __init__(self):
        self.free = threading.Event()
        self.free.set()

    def embed(self, texts):
        assert self.free.wait(timeout=60)
        rows = (np.random.default_rng(zlib.crc32(text.encode())).normal(size=16) for text in texts)
        return [Embedded.unit("words", row) for row in rows]


@pytest.fixture
def plane(tmp_path):
    encoder = Words()
    with front(tmp_path, engines=1, encoder=encoder, hot={"policy": "fifo", "capacity": 2}) as made:
        for name in "abc":
            made.create(name, f"What {name} says. " * 3)
        made.encoder = encoder
        yield made
        encoder.free.set()


def use(plane, names, question="what?"):
    answer = plane.ask(question, headers={"X-PlaceMem-Capsules": names})
    assert answer.status_code == 200
    return answer


def hot(plane, tenant="one"):
    plane.wait(plane.idle)  # a use is handed over after the answer
    plane.serving.hot_sets.settled()
    return sorted(plane.get("/hot", tenant).json()["capsules"])


def test_what_is_used_becomes_hot_and_is_laid_out_first(plane):
    assert plane.get("/hot").json() == {"policy": "fifo", "capacity": 2, "capsules": []}
    for name in "abc":
        use(plane, name, f"about {name}?")
    assert hot(plane) == ["b@1", "c@1"] and hot(plane, "two") == []
    with PlaneClient(plane.tokens["one"], plane.url) as client:
        assert sorted(client.hot().capsules) == ["b@1", "c@1"]
    # Without the hot set `a` would come first: it was written first, and all were used as often.
    assert use(plane, "a,c").headers["x-placemem-capsules"] == "c@1, a@1"


def test_a_correction_takes_the_capsule_out_at_once(plane):
    for name in "abc":
        use(plane, name, f"about {name}?")
    assert "c@1" in hot(plane)
    plane.correct("c@1", "What c says now. " * 3)
    assert plane.get("/hot").json()["capsules"] == ["b@1"]
    use(plane, "a")
    assert hot(plane) == ["a@1", "b@1"], "as if it had never been used"
    use(plane, "c")
    assert hot(plane) == ["b@1", "c@2"]


def test_a_correction_while_it_is_learnt_keeps_it_out_and_waits_for_nothing(plane):
    plane.encoder.free.clear()
    use(plane, "a")
    plane.wait(plane.idle)
    plane.correct("a@1", "What a says now. " * 3)  # the encoder has not answered yet
    plane.encoder.free.set()
    assert hot(plane) == [] and not plane.serving.hot_sets._vectors


def test_what_another_process_ended_is_not_shown(plane):
    use(plane, "a")
    use(plane, "b")
    assert hot(plane) == ["a@1", "b@1"]
    other = Catalogue(plane.services.settings.database)
    other.correct(Intent("one", "other"), ref("a@1"), content("new"))
    other.close()
    assert hot(plane) == ["b@1"]


def test_requests_never_wait_for_it_and_what_is_too_much_is_left_out(plane):
    plane.encoder.free.clear()
    assert [use(plane, "a").status_code for _ in range(3)] == [200] * 3
    plane.wait(plane.idle)
    sets, capsule = plane.serving.hot_sets, plane.services.catalogue.get("one", "a")
    for _ in range(600):
        sets.used("one", "what?", (capsule,))
    left_out = plane.serving.records.meters.events.labels("hot_left_out")._value.get()
    assert 600 - 256 - 256 <= left_out <= 600 - 256 + 3, "a queue full, besides those that were taken out before"
    plane.encoder.free.set()
    assert hot(plane) == ["a@1"]


NODE = '[[nodes]]\nname = "a"\nurl = "http://127.0.0.1:1"\nmodel = "tiny"\n'
LRU = 'policy = "lru"\ncapacity = 3'


def start(folder, table, more, encoder):
    config = folder / "plane.toml"
    config.write_text(f"[hot]\n{table}\n{more}")
    with closing(build(load(config), encoder=encoder)) as services:
        create_app(services)


@pytest.mark.parametrize(
    ("table", "more", "encoder", "said"),
    [
        ('policy = "lru"', NODE, None, "hot.capacity"), ('policy = "lru"\ncapacity = 0', NODE, None, "hot.capacity"),
        (f"{LRU}\nsize = 3", NODE, None, "hot.size"), (LRU, NODE, None, "needs an encoder"),
        ('policy = "nonsense"\ncapacity = 3', NODE, Words(), "nonsense"), (LRU, "", Words(), "needs .*nodes"),
        ('policy = "oracle"\ncapacity = 3', NODE, Words(), "future"),
        ('policy = "lru,fifo"\ncapacity = 3', NODE, Words(), "one decides"),
    ],
)  # fmt: skip
def test_a_hot_set_that_cannot_be_kept_is_an_error_at_the_start(tmp_path, table, more, encoder, said):
    with pytest.raises(Invalid, match=said):
        start(tmp_path, table, more, encoder)


def test_without_jax_it_is_an_error_at_the_start(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)  # as if it were not installed
    with pytest.raises(Invalid, match="needs jax: pip install"):
        start(tmp_path, LRU, NODE, Words())
    monkeypatch.undo()
    start(tmp_path, LRU, NODE, Words())


def test_the_command_line_says_it_in_one_line(tmp_path):
    (tmp_path / "plane.toml").write_text(f"[hot]\n{LRU}\n{NODE}")
    command = [sys.executable, "-m", "solarjax.cli.main", "plane", "serve", "--config", str(tmp_path / "plane.toml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stderr.startswith("solarjax: error: "), done.stderr
    assert "[hot] needs an encoder" in done.stderr and done.stderr.count("\n") == 1


def test_without_the_table_nothing_is_kept_and_nothing_is_hot(tmp_path):
    with front(tmp_path, engines=1) as plane:
        plane.create("a", "What a says.")
        use(plane, "a")
        assert plane.serving.hot_sets is None
        assert plane.get("/hot").json() == {"policy": None, "capacity": None, "capsules": []}
