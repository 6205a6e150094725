"""A recorded log of OpenAI-style requests, read as sessions to replay.

One JSON object a line, in any of the forms that proxies and client libraries write:

```
{"request": {"messages": [...]}, "response": {"choices": [{"message": {"content": "..."}}]}, "session": "u1"}
{"messages": [..., {"role": "user", "content": "..."}], "answer": "...", "session": "u1", "category": "billing"}
{"body": {"messages": [..., {"role": "assistant", "content": "..."}]}}
```

The question is the last user message. The gold answer is `answer`, else the recorded response, else the assistant
message that follows the question. `session`, `user` or the request's own `user` groups lines; without any they are one
session. What was said before the question (system message and earlier turns) enters that session's corpus once, in the
order of first appearance. Content given in parts keeps its text parts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from solarjax.replay.traces import Asked, ReplaySession, TraceProblem
from solarjax.traces.files import read_text


def load_requests(path: Path) -> list[ReplaySession]:
    """Sessions of a request log, in order of first appearance. Lines that carry no answer are counted, not asked.

    Raises:
      TraceError: the file cannot be read.
      TraceProblem: a line is no JSON object or has no messages (as `file:line: ...`), or nothing can be asked.
    """
    questions: dict[str, list[Asked]] = {}
    corpora: dict[str, dict[str, None]] = {}
    left_out: dict[str, int] = {}
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        record = _object(line, where)
        request = next((record[k] for k in ("request", "body") if isinstance(record.get(k), dict)), record)
        messages = request.get("messages")
        if not isinstance(messages, list) or not messages:
            raise TraceProblem(f"{where}: no messages (a list is needed, in the record, `request` or `body`)")
        said = [_said(message, where) for message in messages]
        users = [i for i, (role, _) in enumerate(said) if role == "user"]
        if not users:
            raise TraceProblem(f"{where}: no message has the role user, so nothing was asked")
        at = users[-1]
        group = str(record.get("session") or record.get("user") or request.get("user") or path.stem)
        gold = _gold(record, said, at)
        corpus = corpora.setdefault(group, {})
        for role, text in said[:at]:
            if text:
                corpus.setdefault(f"{role}: {text}")
        asked = questions.setdefault(group, [])
        if gold:
            id = str(record.get("id") or f"line-{number}")
            if any(other.id == id for other in asked):
                id = f"{id}#{number}"
            category = str(record.get("category") or "all")
            asked.append(Asked(id, said[at][1], (gold,), category, "single"))
        else:
            left_out[group] = left_out.get(group, 0) + 1
    sessions = [
        ReplaySession(name, tuple(corpora[name]), tuple(asked), (("without answer", left_out.get(name, 0)),))
        for name, asked in questions.items()
        if asked
    ]
    if not sessions:
        raise TraceProblem(f"{path}: no line holds a question with an answer, so nothing can be scored")
    return sessions


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise TraceProblem(f"{where}: not valid JSON: {getattr(error, 'msg', 'nested too deeply')}") from None
    if not isinstance(record, dict):
        raise TraceProblem(f"{where}: expected a JSON object, got {type(record).__name__}")
    return record


def _said(message: Any, where: str) -> tuple[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise TraceProblem(f"{where}: every message needs a role, got {message!r:.60}")
    return message["role"], _content(message.get("content"))


def _content(content: Any) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(text for text in parts if isinstance(text, str))
    return content.strip() if isinstance(content, str) else ""


def _gold(record: dict[str, Any], said: list[tuple[str, str]], at: int) -> str:
    if isinstance(record.get("answer"), str):
        return record["answer"].strip()
    response = record.get("response")
    if isinstance(response, dict):
        choices = response.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            message = choices[0].get("message")
            text = message.get("content") if isinstance(message, dict) else choices[0].get("text")
            return _content(text)
    return next((text for role, text in said[at + 1 :] if role == "assistant"), "")
