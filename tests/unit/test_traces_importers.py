"""Importers against facts counted by hand or with other tools from the published files, and their errors."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from solarjax.core.trace import TraceError
from solarjax.traces import dialsim, friendsqa, locomo
from solarjax.traces.conversation import Conversation, ImportReport, Question, Session, Turn
from solarjax.traces.dates import parse_time


@pytest.fixture(scope="module")
def locomo_conversations(shared_data: Path) -> tuple[Conversation, ...]:
    return locomo.load(shared_data / "locomo" / "locomo10.json")


def test_locomo_counts(locomo_conversations: tuple[Conversation, ...]) -> None:
    assert len(locomo_conversations) == 10
    assert sum(len(c.turns) for c in locomo_conversations) == 5882
    assert sum(len(c.questions) for c in locomo_conversations) == 1986
    assert sum(len(c.usable) for c in locomo_conversations) == 1982
    # Published category sizes: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial.
    categories = Counter(c.category_names[q.category] for c in locomo_conversations for q in c.questions)
    assert categories == {
        "multi-hop": 282,
        "temporal": 321,
        "open-domain": 96,
        "single-hop": 841,
        "adversarial": 446,
    }
    assert Counter(q.answerable for c in locomo_conversations for q in c.questions) == {
        True: 1540,
        False: 446,
    }


def test_locomo_reports_every_malformed_evidence_string(
    locomo_conversations: tuple[Conversation, ...],
) -> None:
    # Found by eye in the file: four strings that hold several ids, a bare "D", a stray colon, a leading zero,
    # and two ids of turns that do not exist.
    assert [text for c in locomo_conversations for text in c.report.malformed] == [
        "conv-26/q37: 'D8:6; D9:17'",
        "conv-42/q58: 'D10:19'",
        "conv-42/q88: 'D'",
        "conv-43/q18: 'D:11:26'",
        "conv-47/q38: 'D4:36'",
        "conv-49/q31: 'D9:1 D4:4 D4:6'",
        "conv-49/q38: 'D22:1 D22:2 D9:10 D9:11'",
        "conv-49/q46: 'D21:18 D21:22 D11:15 D11:19'",
        "conv-50/q69: 'D30:05'",
    ]
    unknown = [text for c in locomo_conversations for text in c.report.unknown]
    assert unknown == ["conv-42/q58: D10:19", "conv-47/q38: D4:36"]
    assert sum(len(c.report.unusable) for c in locomo_conversations) == 4
    by_name = {c.name: c for c in locomo_conversations}

    def evidence(name: str, question: int) -> list[str]:
        return [by_name[name].turns[i].id for i in by_name[name].questions[question].evidence]

    assert evidence("conv-26", 37) == ["D8:6", "D9:17"]
    assert "D11:26" in evidence("conv-43", 18)
    assert evidence("conv-49", 31) == ["D4:4", "D4:6", "D9:1"]
    assert evidence("conv-50", 69) == ["D30:5"]
    assert evidence("conv-42", 88) == ["D1:18", "D1:20"]


def test_locomo_turns_and_dates(locomo_conversations: tuple[Conversation, ...]) -> None:
    first = locomo_conversations[0]
    assert (first.name, len(first.sessions), len(first.turns)) == ("conv-26", 19, 419)
    assert first.turns[0] == Turn("D1:1", 0, "Caroline", "Hey Mel! Good to see you! How have you been?")
    assert first.sessions[0] == Session("session_1", "1:56 pm on 8 May, 2023", 1683554160.0)
    shared = {turn.id: turn.text for turn in first.turns}["D1:5"]
    assert shared == (
        "The transgender stories were so inspiring! I was so happy and thankful for all the support. "
        "[shared: a photo of a dog walking past a wall with a painting of a woman]"
    )
    # 16 dates of conv-26 announce sessions that the file does not hold.
    assert first.report.notes["dates_without_session"] == 16
    assert all(s.time is not None for c in locomo_conversations for s in c.sessions)
    captions = sum("[shared: " in turn.text for c in locomo_conversations for turn in c.turns)
    assert captions == 709 + 311 + 179 + 22 + 5  # turns with a caption, by the other fields they carry


def test_locomo_adversarial_answers(locomo_conversations: tuple[Conversation, ...]) -> None:
    raw = locomo_conversations[0].questions
    adversarial = [q for q in raw if not q.answerable]
    # The two adversarial questions of the file that carry an answer keep it; the others take the adversarial
    # one.
    bowl = next(q for q in adversarial if "black and white bowl" in q.text)
    assert bowl.answers == ("No",)
    realized = next(q for q in adversarial if q.text.startswith("What did Caroline realize after her charity"))
    assert realized.answers == ("self-care is important",)


def _sample() -> dict[str, Any]:
    return {
        "sample_id": "c1",
        "conversation": {
            "session_1": [{"speaker": "A", "dia_id": "D1:1", "text": "hi"}],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
        },
        "qa": [{"question": "Q?", "answer": 3, "category": 1, "evidence": ["D1:1"]}],
    }


def _write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("sample_id"), r"conversation 0: field 'sample_id' is missing"),
        (
            lambda s: s["conversation"]["session_1"][0].pop("text"),
            r"c1 session_1\[0\]: field 'text' is missing",
        ),
        (lambda s: s["qa"][0].update(category=7), r"qa\[0\]: category is 7; allowed are 1..5"),
        (lambda s: s["qa"][0].update(category=True), r"'category' must be int, got bool"),
        (lambda s: s["qa"][0].pop("answer"), r"qa\[0\]: field 'answer' is missing"),
        (lambda s: s["qa"][0].update(evidence=[7]), r"evidence must be strings, got 7"),
        (lambda s: s["qa"][0].update(evidence="D1:1"), r"'evidence' must be list, got str"),
        (lambda s: s["conversation"].pop("session_1"), r"the conversation has no turns"),
        (
            lambda s: s["conversation"]["session_1"].append({"speaker": "A", "dia_id": "D1:1", "text": ""}),
            r"turn id 'D1:1' occurs twice",
        ),
    ],
)
def test_locomo_errors_name_the_place(tmp_path: Path, change: Any, message: str) -> None:
    sample = _sample()
    assert locomo.load(_write(tmp_path / "good.json", [sample]))[0].questions[0].answers == ("3",)
    change(sample)
    with pytest.raises(TraceError, match=message):
        locomo.load(_write(tmp_path / "bad.json", [sample]))


def test_file_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"absent.json: cannot be read"):
        locomo.load(tmp_path / "absent.json")
    with pytest.raises(TraceError, match=r"cut.json:2: not valid JSON"):
        locomo.load(_write(tmp_path / "cut.json", '[\n{"sample_id": '))
    with pytest.raises(TraceError, match="non-empty JSON list"):
        locomo.load(_write(tmp_path / "object.json", {}))
    with pytest.raises(TraceError, match="sample_id 'c1' occurs twice"):
        locomo.load(_write(tmp_path / "twice.json", [_sample(), _sample()]))
    (tmp_path / "latin.json").write_bytes(b'["\xe9"]')
    with pytest.raises(TraceError, match=r"latin.json: not UTF-8 text \(byte 2\)"):
        locomo.load(tmp_path / "latin.json")


def test_friendsqa_counts(shared_data: Path) -> None:
    dev, tst = (friendsqa.load(shared_data / "friendsqa" / f"friendsqa_{part}.json")[0] for part in ("dev", "tst"))
    assert (dev.name, len(dev.sessions), len(dev.turns), len(dev.questions)) == (
        "friendsqa-dev",
        136,
        2847,
        1182,
    )
    assert (tst.name, len(tst.sessions), len(tst.turns), len(tst.questions)) == (
        "friendsqa-tst",
        113,
        2336,
        1201,
    )
    assert len(dev.turns) + len(tst.turns) == 5183
    assert len(dev.questions) + len(tst.questions) == len(dev.usable) + len(tst.usable) == 2383
    # The file counts 136 + 86 "who" questions (original and paraphrased) in dev, 113 + 113 in tst.
    assert Counter(dev.category_names[q.category] for q in dev.questions)["who"] == 222
    assert Counter(tst.category_names[q.category] for q in tst.questions)["who"] == 226
    titles = [session.label for session in dev.sessions]
    assert titles == sorted(titles) and titles != [s["title"] for s in _scenes(shared_data)]


def test_friendsqa_evidence_lies_in_the_questions_scene(shared_data: Path) -> None:
    (dev,) = friendsqa.load(shared_data / "friendsqa" / "friendsqa_dev.json")
    raw = {
        record["id"]: (scene["title"], record)
        for scene in _scenes(shared_data)
        for record in scene["paragraphs"][0]["qas"]
    }
    for question in dev.questions:
        title, record = raw[question.id]
        expected = sorted({f"{title}/u{answer['utterance_id']}" for answer in record["answers"]})
        assert sorted(dev.turns[i].id for i in question.evidence) == expected


def _scenes(shared_data: Path) -> list[dict[str, Any]]:
    return json.loads((shared_data / "friendsqa" / "friendsqa_dev.json").read_text())["data"]


def test_friendsqa_errors(tmp_path: Path) -> None:
    answer = {"answer_text": "tea", "utterance_id": 0}
    scene: dict[str, Any] = {
        "title": "s01_e01_c01",
        "paragraphs": [
            {
                "utterances:": [{"uid": 0, "speakers": ["A", "B"], "utterance": "tea"}],
                "qas": [{"id": "s01_e01_c01_What_Paraphrased", "question": "What?", "answers": [answer]}],
            }
        ],
    }
    (good,) = friendsqa.load(_write(tmp_path / "a.json", {"data": [scene]}))
    assert good.turns[0].speaker == "A, B" and good.questions[0].category == 0
    broken = copy.deepcopy(scene)
    broken["paragraphs"][0]["qas"][0]["answers"][0]["utterance_id"] = 4
    (dropped,) = friendsqa.load(_write(tmp_path / "b.json", {"data": [broken]}))
    assert dropped.report.unknown == ("s01_e01_c01_What_Paraphrased: utterance 4",)
    assert dropped.report.unusable == ("s01_e01_c01_What_Paraphrased",) and dropped.usable == ()
    for key, value, message in (
        ("id", "s01_e01_c01_Which", "the id must end in one of what, who"),
        ("answers", [], "the list of answers is empty"),
        ("question", None, "'question' must be str"),
    ):
        broken = copy.deepcopy(scene)
        broken["paragraphs"][0]["qas"][0][key] = value
        with pytest.raises(TraceError, match=message):
            friendsqa.load(_write(tmp_path / "c.json", {"data": [broken]}))


@pytest.mark.parametrize(
    ("show", "sessions", "turns", "joined", "empty"),
    # Counted with grep: headers, lines with a colon, other lines, lines that end at the speaker's colon.
    [("bigbang", 805, 19145, 0, 3), ("friends", 788, 18664, 57, 14), ("theoffice", 2347, 19160, 0, 105)],
)
def test_dialsim_corpora(shared_data: Path, show: str, sessions: int, turns: int, joined: int, empty: int) -> None:
    (corpus,) = dialsim.load(shared_data / "dialsim" / f"dialsim_corpus_{show}.txt")
    assert (corpus.name, len(corpus.sessions), len(corpus.turns)) == (f"dialsim-{show}", sessions, turns)
    assert corpus.report.notes == {
        "joined_lines": joined,
        "empty_utterances": empty,
        "sessions_without_time": 0,
    }
    assert corpus.questions == ()


CORPUS = """[Date: May 4, 1995, Session #1]

Ross: Hi.
Phoebe: All you want is a dingle,
What you envy's a schwang,
Ross:

[Date: May 4, 1995, Session #2]

All: Hey! It is 3:00 now.

[Date: May 5, 1995, Session #3]
Joey: Bye.
"""


def _qa(**fields: Any) -> dict[str, Any]:
    return {"question": "Who?", "answer": "Ross", "evidence": ["[Date: May 4, 1995, Session #1]"], **fields}


def test_dialsim_questions_in_the_documented_layout(tmp_path: Path) -> None:
    corpus = _write(tmp_path / "dialsim_corpus_mini.txt", CORPUS)
    qa = [
        _qa(type="ans_w_time", options=["Ross", "Joey"]),
        _qa(evidence=["[Date: May 4, 1995, Session #1, Utterance #2]", "May 5, 1995"], id="seven"),
        _qa(evidence=["May 4, 1995"], type="dont_know_unans"),
        _qa(evidence=["May 9, 1995", "yesterday", "[Date: May 4, 1995, Session #1, Utterance #9]"]),
        {"questions": {"Monica": "Who is he?", "default": "Who?"}, "answer": "Joey", "evidence": []},
    ]
    (loaded,) = dialsim.load(corpus, _write(tmp_path / "qa.json", qa))
    assert [turn.text for turn in loaded.turns] == [
        "Hi.",
        "All you want is a dingle,\nWhat you envy's a schwang,",
        "",
        "Hey! It is 3:00 now.",
        "Bye.",
    ]
    assert loaded.report.notes == {"joined_lines": 1, "empty_utterances": 1, "sessions_without_time": 0}
    assert [q.evidence for q in loaded.questions] == [(0, 1, 2), (1, 4), (0, 1, 2, 3), (), ()]
    assert [q.id for q in loaded.questions] == ["0", "seven", "2", "3", "4"]
    assert loaded.category_names == ("ans_w_time", "dont_know_unans", "unspecified")
    assert [q.answerable for q in loaded.questions] == [True, True, False, True, True]
    assert loaded.questions[4].text == "Who?"
    assert loaded.report.unknown == ("3: May 9, 1995", "3: [Date: May 4, 1995, Session #1, Utterance #9]")
    assert loaded.report.malformed == ("3: 'yesterday'",)
    assert loaded.report.unusable == ("3", "4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Ross: Hi.\n", r"c.txt:1: expected a header"),
        ("[Date: May 4, 1995, Session 1]\n", r"c.txt:1: expected a header"),
        ("[Date: May 4, 1995, Session #1]\nla la\n", r"c.txt:2: the first line of a session needs a speaker"),
        ("[Date: May 4, 1995, Session #1]\nA: b\n" * 2, r"c.txt:3: session .* occurs twice"),
        ("", "the conversation has no turns"),
    ],
)
def test_dialsim_corpus_errors(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        dialsim.load(_write(tmp_path / "c.txt", text))


@pytest.mark.parametrize(
    ("qa", "message"),
    [
        ({}, "expected a JSON list of questions"),
        ([_qa(answer=None)], r"question 0: field 'answer' must be str"),
        ([{"answer": "x", "evidence": []}], r"question 0: field 'questions' is missing"),
        ([_qa(), _qa(answerable="no")], r"question 1: field 'answerable' must be true or false"),
        ([_qa(id="1"), _qa()], r"question id '1' occurs twice"),
        (["Who?"], r"question 0: expected a JSON object"),
    ],
)
def test_dialsim_question_errors(tmp_path: Path, qa: Any, message: str) -> None:
    corpus = _write(tmp_path / "c.txt", CORPUS)
    with pytest.raises(TraceError, match=message):
        dialsim.load(corpus, _write(tmp_path / "qa.json", qa))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turns": ()}, "has no turns"),
        ({"turns": (Turn("b", 1, "A", "x"), Turn("a", 0, "A", "x"))}, "grouped by session"),
        ({"turns": (Turn("a", 2, "A", "x"),)}, r"indices 0..1 in order"),
        ({"questions": (Question("q", "Q?", ("A",), 1, (0,)),)}, "has category 1; allowed are 0..0"),
        ({"questions": (Question("q", "Q?", ("A",), 0, (1, 0)),)}, "must be increasing turn indices in 0..1"),
        ({"questions": (Question("q", "Q?", ("A",), 0, (2,)),)}, "must be increasing turn indices in 0..1"),
        ({"questions": (Question("q", "Q?", (), 0, (0,)),)}, "has no answer"),
    ],
)
def test_conversation_checks_itself(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "name": "c",
        "sessions": (Session("s0", "", None), Session("s1", "", None)),
        "turns": (Turn("a", 0, "A", "x"), Turn("b", 1, "A", "x")),
        "questions": (Question("q", "Q?", ("A",), 0, (0, 1)),),
        "category_names": ("any",),
        "report": ImportReport("here"),
    }
    assert Conversation(**good).usable == good["questions"]
    with pytest.raises(TraceError, match=message):
        Conversation(**{**good, **change})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        # Seconds since the epoch from `date -u -d ... +%s`.
        ("1:56 pm on 8 May, 2023", 1683554160.0),
        ("12:09 am on 13 September, 2023", 1694563740.0),
        ("12:30 pm on 1 January, 1970", 45000.0),
        ("September 22, 1994", 780192000.0),
        ("2024-02-29T12:00:00+02:00", 1709200800.0),
        ("2024-02-29", 1709164800.0),
        ("0:56 pm on 8 May, 2023", None),
        ("13:56 pm on 8 May, 2023", None),
        ("February 30, 1994", None),
        ("Smarch 3, 1994", None),
        ("", None),
    ],
)
def test_dates(text: str, seconds: float | None) -> None:
    assert parse_time(text) == seconds
