"""The fence before an engine is asked, and the time a whole answer may take."""

from tests.plane.front import front


def test_an_engine_never_sees_what_was_corrected_before_it_was_asked(tmp_path, monkeypatch):
    with front(tmp_path) as plane:
        plane.create("fact", "The code is 17. " * 6)
        usual, corrected = plane.serving.planner.choose, []

        def choose(*given, **more):
            decision = usual(*given, **more)
            if not corrected:
                corrected.append(plane.correct("fact@1", "The code is 18. " * 6))
            return decision

        monkeypatch.setattr(plane.serving.planner, "choose", choose)
        for stream in (False, True):
            answer = plane.ask("code?", headers={"X-PlaceMem-Capsules": "fact"}, stream=stream)
            record = plane.last()
            assert answer.status_code == 200 and record.capsules == ("fact@2",)
            assert record.readmitted == (0 if stream else 1) and len(record.attempts) == 1
        bodies = [body["messages"][0]["content"] for engine in plane.engines for body in engine.seen]
        assert len(bodies) == 2 and all("[fact v2]" in b and "17" not in b for b in bodies)


def test_a_whole_answer_may_take_so_long_and_no_longer(tmp_path):
    with front(tmp_path, answer_seconds=0.5) as plane:
        for engine in plane.engines:
            engine.script.append("hang")
        answer = plane.ask("x")
        assert answer.status_code == 504 and answer.json()["error"]["code"] == 504
        record = plane.last()
        assert record.outcome == "failed" and sorted(record.attempts) == ["a", "b"]
        plane.wait(lambda: [engine.cancelled for engine in plane.engines] == [1, 1])
        assert all(node.in_flight == 0 for node in plane.serving.nodes)
        plane.fresh()
        plane.engines[0].script.append("hang")
        node = plane.serving.node("a")
        node.latency.curve = node.latency.curve._replace(a=0.0, b=0.0, c=0.0)  # the fastest, so it is asked first
        answer = plane.asking("y")
        plane.held()
        plane.limits(answer=30.0)  # of the next try: it is not about how fast the other one is
        assert answer().status_code == 200 and plane.last().attempts == ("a", "b")
