"""The four kinds of input, in the layouts in which they are published or recorded."""

import json

import pytest

from solarjax.core.trace import TraceError
from solarjax.replay import traces
from solarjax.replay.requests import load_requests
from solarjax.replay.traces import TraceProblem


def test_locomo_keeps_categories_evidence_and_counts(shared_data):
    sessions = traces.load_locomo(shared_data / "locomo" / "locomo10.json")
    assert [s.name for s in sessions][:2] == ["conv-26", "conv-30"] and len(sessions) == 10
    # 1,986 questions, 1,982 usable (spec/locomo.md); 446 adversarial.
    assert sum(len(s.questions) for s in sessions) == 1982
    assert sum(dict(s.dropped)["without evidence"] for s in sessions) == 4
    first = sessions[0]
    assert len(first.corpus) == 419 and first.corpus[0].startswith("1:56 pm on 8 May, 2023 Caroline: ")
    by_text = {q.text: q for q in first.questions}
    question = by_text["When did Caroline go to the LGBTQ support group?"]
    assert (question.golds, question.category, question.rule) == (("7 May 2023",), "temporal", "single")
    assert question.evidence == {"D1:3"}
    # A numeric answer is its text.
    assert by_text["When did Melanie paint a sunrise?"].golds == ("2022",)
    adversarial = by_text["What did Caroline realize after her charity race?"]
    assert (adversarial.category, adversarial.rule) == ("adversarial", "unanswerable")
    # It rests on the same turn as this single-hop question, so each helps the other.
    partner = by_text["What did Melanie realize after the charity race?"]
    relevant = first.relevant()
    a, b = first.questions.index(adversarial), first.questions.index(partner)
    assert a in relevant[b] and b in relevant[a] and a not in relevant[a]


def test_a_question_without_evidence_is_left_out_and_counted(tmp_path):
    """Of five questions, one names no evidence and one a turn that does not exist; a stray colon is still a turn."""

    def asked(category, evidence, **answer):
        return {"question": f"what {category} {evidence}", "category": category, "evidence": evidence, **answer}

    turns = [{"speaker": "Ann", "dia_id": f"D1:{i}", "text": f"text {i}"} for i in (1, 2)]
    sample = {
        "sample_id": "conv-1",
        "conversation": {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns},
        "qa": [
            asked(1, ["D1:1"], answer="one, two"),
            asked(4, [], answer="three"),
            asked(2, ["D9:9"], answer=2022),
            asked(2, ["D:1:02"], answer=2023),
            asked(5, ["D1:2"], adversarial_answer="four"),
        ],
    }
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([sample]))
    (session,) = traces.load_locomo(path)
    assert [(q.golds, q.rule, q.evidence) for q in session.questions] == [
        (("one, two",), "several", {"D1:1"}),
        (("2023",), "single", {"D1:2"}),
        (("four",), "unanswerable", {"D1:2"}),
    ]
    assert dict(session.dropped) == {"without evidence": 2}
    assert traces.left_out([session, session]) == {"without evidence": 4}
    # The two that share a turn help each other; the first is alone.
    assert session.relevant() == [frozenset(), {2}, {1}]
    sample["qa"] = sample["qa"][1:3]
    path.write_text(json.dumps([sample]))
    with pytest.raises(TraceProblem, match="conv-1: no question has evidence"):
        traces.load_locomo(path)


def test_dialsim_in_its_published_layout(tmp_path):
    (tmp_path / "dialsim_corpus_friends.txt").write_text(
        "[Date: September 22, 1994, Session #1]\nMonica: There's nothing to tell!\nJoey: C'mon.\n"
    )
    (tmp_path / "qa.json").write_text(
        json.dumps(
            [
                {
                    "questions": {"default": "Who said c'mon?"},
                    "answer": "Joey",
                    "type": "ans_w_time",
                    "options": ["Joey", "Ross"],
                    "evidence": ["[Date: September 22, 1994, Session #1, Utterance #2]"],
                },
                {
                    "question": "Who is Paul?",
                    "answer": "I don't know",
                    "type": "unans_w_time",
                    "evidence": ["September 22, 1994"],
                },
            ]
        )  # fmt: skip
    )
    (session,) = traces.load_dialsim(tmp_path / "dialsim_corpus_friends.txt", tmp_path / "qa.json")
    assert session.name == "dialsim-friends" and len(session.corpus) == 2
    assert [(q.golds, q.category, q.rule) for q in session.questions] == [
        (("Joey",), "ans_w_time", "single"),
        (("I don't know",), "unans_w_time", "unanswerable"),
    ]


def test_json_lines_ask_what_has_an_answer(tmp_path):
    path = tmp_path / "mine.jsonl"
    rows = [
        {"kind": "trace", "name": "bot"},
        {"kind": "item", "id": "a", "text": "The key is under the mat."},
        {"kind": "query", "id": "q", "text": "Where is the key?", "relevant": ["a"], "answer": "under the mat"},
        {"kind": "query", "id": "r", "text": "Who are you?"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    (session,) = traces.load_jsonl(path)
    assert (session.name, session.corpus) == ("bot", ("The key is under the mat.",))
    assert [(q.id, q.evidence) for q in session.questions] == [("q", {"a"})]
    assert dict(session.dropped) == {"without answer": 1}
    path.write_text(json.dumps(rows[1] | {"text": None, "embedding": [1.0]}) + "\n" + json.dumps(rows[3]))
    with pytest.raises(TraceProblem, match="mine.jsonl:1: a replay needs the text of every item"):
        traces.load_jsonl(path)
    path.write_text(json.dumps(rows[1]) + "\n" + json.dumps(rows[3]))
    with pytest.raises(TraceProblem, match="no query has an answer"):
        traces.load_jsonl(path)


def test_a_request_log_in_its_three_forms(tmp_path):
    path = tmp_path / "log.jsonl"
    system = {"role": "system", "content": "Be brief."}
    rows = [
        {"request": {"messages": [system, {"role": "user", "content": "Capital of France?"}], "user": "u1"},
         "response": {"choices": [{"message": {"role": "assistant", "content": "Paris"}}]}},
        {"messages": [system, {"role": "user", "content": [{"type": "text", "text": "And of Italy?"}]}],
         "answer": "Rome", "session": "u1", "category": "geo", "id": "x"},
        {"body": {"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]},
         "session": "u2"},
        {"messages": [{"role": "user", "content": "unanswered"}], "session": "u2"},
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    first, second = load_requests(path)
    assert first.corpus == ("system: Be brief.",)
    assert [(q.id, q.text, q.golds, q.category) for q in first.questions] == [
        ("line-1", "Capital of France?", ("Paris",), "all"),
        ("x", "And of Italy?", ("Rome",), "geo"),
    ]
    assert [(q.text, q.golds) for q in second.questions] == [("2 + 2?", ("4",))]
    assert dict(second.dropped) == {"without answer": 1}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{nonsense", "log.jsonl:1: not valid JSON"),
        ("[1]", "log.jsonl:1: expected a JSON object, got list"),
        ('{"prompt": "x"}', "log.jsonl:1: no messages"),
        ('{"messages": [{"content": "x"}]}', "every message needs a role"),
        ('{"messages": [{"role": "system", "content": "x"}]}', "no message has the role user"),
        ('{"messages": [{"role": "user", "content": "x"}]}', "nothing can be scored"),
    ],
)
def test_a_bad_log_names_file_and_line(tmp_path, line, says):
    path = tmp_path / "log.jsonl"
    path.write_text(line)
    with pytest.raises(TraceProblem, match=says):
        load_requests(path)
    with pytest.raises(TraceError, match="cannot be read"):
        load_requests(tmp_path / "absent.jsonl")


def test_choosing_sessions_and_questions(shared_data):
    sessions = traces.load_locomo(shared_data / "locomo" / "locomo10.json")
    (one,) = traces.choose(sessions, ["conv-26"], 10)
    assert len(one.questions) == 10
    # Spread over the file, so categories of its end (adversarial) and of its start are both there.
    assert one.questions[0] == sessions[0].questions[0]
    assert "adversarial" in {q.category for q in one.questions} and len({q.category for q in one.questions}) > 2
    assert one.identity() != sessions[0].identity()
    assert len(traces.choose(sessions, None, None)) == 10
    with pytest.raises(TraceProblem, match="session 'conv-1' is not in this trace; it holds conv-26"):
        traces.choose(sessions, ["conv-1"], None)
    with pytest.raises(TraceProblem, match="limit 0"):
        traces.choose(sessions, None, 0)
