"""An answer, its citations, the references they resolve to, and its confidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from types import MappingProxyType
from typing import Any, NamedTuple

from polyhop.common.text import (
    SECTION,
    counted,
    find_folded,
    normalise,
    printable,
    printable_lines,
    without_citation_marks,
)
from polyhop.lm.base import Completion
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.tasks import Output
from polyhop.trace import Branch, Note, Searched, Trace, Usage, passages_in
from polyhop.types import Citation, Evidence, Passage, Quotation, Support

NON_ANSWER = "non-answer"
"""The name of the note in a trace that names the non-answer of a method."""
UNREAD = "unread reply"
"""The name of the note in a trace that says what was kept of a final reply that could not be read."""
UNREAD_NOTICE = "The model's last reply was not in the form asked for: the answer is what it ends in."
"""The warning that goes with such an answer."""
NO_ANSWER = "The documents do not say."
"""An abstention in words, for people."""
MAX_NEAREST = 3
"""Number of passages that are shown with an abstention: the nearest to an answer."""
UNCITED = "Not verified: no passage is cited for this answer."
NOT_VERIFIED = "Not verified: the cited passages alone do not clearly give this answer."
CONTRADICTED = "Contradicted: the cited passages alone give another answer: {}."

_MAX_EXCERPT = 400
"""Maximum number of characters of a passage in a notebook."""
_MARKDOWN = re.compile(r"[\\`*_\[\]<>!|]")
_LOADING = re.compile(r"!(?=\[)|<(?=[A-Za-z/!?])")  # a picture, or HTML, in Markdown


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a method, which fills the first fields; the engine adds citations, support, the trace and usage.

    ``passages`` are ranked, best first, distinct. ``support``: whether the cited passages, read alone, give the
    answer (``engine.support``), and ``quotation`` the sentence that shows it; ``supported`` follows from it.
    ``confidence``, from 0 to 1: the probability that the answer is right, by a calibration of the ``signals`` if
    there is one, else the model's probability of the answer's words, else the agreement of the evidence, else None;
    an abstention has none, or that of what was withheld. ``content``: if the method writes it, the reasoning of a
    short answer, or the whole of a long one, with the marks [1] of its ``citations``. ``abstained``: there is no
    answer: the method found none ("unknown"), or it was withheld because its confidence is below ``abstain_below``;
    the trace has it. ``parsed`` is False if the model's last reply could not be read in its form: the answer is
    then what that reply ends in, if it states anything.
    """

    text: str
    passages: tuple[Passage, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    supported: bool = False
    confidence: float | None = None
    abstained: bool = False
    parsed: bool = True
    statistics: Mapping[str, float] = field(default_factory=dict)
    citations: tuple[Citation, ...] = ()
    content: str = ""
    support: Support = "not verified"
    quotation: Quotation | None = None
    signals: Mapping[str, float] = field(default_factory=dict)
    trace: Trace = field(default=None, repr=False)  # type: ignore[assignment]  # the engine always fills it
    usage: Usage = field(default=None, repr=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "supported", self.support == "supported")

    def __str__(self) -> str:
        """The answer and how far to trust it, with its references, in a few lines."""
        sure = f"  ({said})" if (said := trust(self)) else ""
        cited, more = _sources(self)
        titles = (f"{each.marks} {title_and_location(each.passage)}" for each in cited)
        return "\n".join(filter(None, [f"{printable_lines(in_words(self))}{sure}", *titles, more]))

    def _repr_html_(self) -> str:
        return as_html(self)

    @property
    def only_read(self) -> tuple[Passage, ...]:
        """The passages that a model or a reader was shown and that are not ranked, in order of reading."""
        ranked = {passage.id for passage in self.passages}
        return tuple(p for p in self.trace.read if p.id not in ranked) if self.trace else ()

    @property
    def not_cited(self) -> tuple[Passage, ...]:
        """The passages found or read that the answer does not cite, best first; without citations, the nearest ones."""
        cited = {citation.passage_id for citation in self.citations}
        return tuple(passage for passage in (*self.passages, *self.only_read) if passage.id not in cited)

    @property
    def nearest(self) -> tuple[Passage, ...]:
        """The passages to show of an answer without citations, at most ``MAX_NEAREST``; none if it cites any."""
        return () if self.citations else self.not_cited[:MAX_NEAREST]

    def to_dict(self, *, with_trace: bool = True) -> dict[str, Any]:
        """Return everything as JSON-ready values. ``passages`` are the ranked ones, then those that were only read;
        each says whether it was ``read`` and is ``cited``."""
        cited = {citation.passage_id for citation in self.citations}
        read = {passage.id for passage in self.trace.read} if self.trace else set()
        return {
            "answer": self.text,
            "content": self.content,
            "confidence": self.confidence,
            "support": self.support,
            "supported": self.supported,
            "quotation": asdict(self.quotation) if self.quotation else None,
            "abstained": self.abstained,
            "parsed": self.parsed,
            "passages": [
                {**p.to_dict(), "cited": p.id in cited, "read": p.id in read} for p in (*self.passages, *self.only_read)
            ],
            "evidence": [
                {"passages": [p.id for p in piece.passages], "answer": piece.answer, "analysis": piece.analysis}
                for piece in self.evidence
            ],
            "citations": [
                {"marker": c.marker, "passage_id": c.passage_id, "start": c.start, "end": c.end} for c in self.citations
            ],
            "signals": dict(self.signals),
            "statistics": dict(self.statistics),
            "usage": self.usage.to_dict() if self.usage else None,
            **({"trace": self.trace.to_dict() if self.trace else None} if with_trace else {}),
        }


class Checked(NamedTuple):
    """The support of an answer, the quotation that shows it, and what was found out about both."""

    support: Support = "not verified"
    quotation: Quotation | None = None
    signals: Mapping[str, float] = MappingProxyType({})


class Reference(NamedTuple):
    """A passage behind an answer: the numbers of its citations, and the (start, end) of the text that they cite."""

    markers: tuple[int, ...]
    passage: Passage
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def marks(self) -> str:
        """The numbers as a text shows them: [1][3]; of a passage that is only near, that."""
        return "".join(f"[{marker}]" for marker in self.markers) or "nearest:"


def cite(answer: Answer, read: Sequence[Passage] = ()) -> tuple[Citation, ...]:
    """Cite the passages of the evidence with this answer, or of all evidence if no piece has it, with numbers.

    Without evidence, cite the ranked passages, if there are any, that were ``read`` for the answer: those that contain
    it word for word, else all of them.
    """
    if answer.evidence:
        normalized = normalise(answer.text)
        agreeing = [piece for piece in answer.evidence if piece.answer and normalise(piece.answer) == normalized]
        passages = list(dict.fromkeys(p for piece in agreeing or answer.evidence for p in piece.passages))
    else:
        ids = {passage.id for passage in read if answer.text}
        passages = [passage for passage in answer.passages or read if passage.id in ids]
    found = [(passage, find_folded(answer.text, passage.text)) for passage in passages]
    if not answer.evidence:
        found = [(passage, span) for passage, span in found if span] or found
    return tuple(
        Citation(marker, passage.id, *(span or (None, None))) for marker, (passage, span) in enumerate(found, 1)
    )


def without_non_answer(answer: Answer, question: str) -> Answer:
    """Return the answer of a method, or an abstention if it is a non-answer."""
    if not answer.text or not is_non_answer(answer.text, question):
        return answer
    evidence = tuple(piece for piece in answer.evidence if not (piece.answer and is_non_answer(piece.answer)))
    return replace(withheld(answer), confidence=None, evidence=evidence)


def with_citations(answer: Answer, trace: Trace) -> Answer:
    """Complete the passages and citations of an answer by what the ``trace`` read."""
    is_complete = answer.passages and (answer.evidence or answer.citations or answer.abstained)  # without what was read
    call = None if is_complete else trace.answers_call
    read = tuple(dict.fromkeys(passages_in(call.fields))) if call else ()
    citations = answer.citations if answer.abstained or answer.citations else cite(answer, read)
    passages = answer.passages or read
    if (passages, citations) == (answer.passages, answer.citations):
        return answer
    return replace(answer, passages=passages, citations=citations)


def completed(answer: Answer, final: Output | None, trace: Trace, usage: Usage, checked: Checked) -> Answer:
    """Complete an answer with its confidence, support, trace and usage. ``final``: the output of the last call."""
    parsed = final is None or final.parsed or answer.text not in ("", final.own_answer)
    signals = {**checked.signals, **signals_of(answer, final)}
    return replace(
        answer, confidence=confidence(answer, final), support=checked.support, quotation=checked.quotation,
        signals=signals, parsed=parsed, trace=trace, usage=usage,
    )  # fmt: skip


def withheld(answer: Answer) -> Answer:
    """An abstention: the answer without its words, its content and its citations."""
    return replace(answer, text="", content="", abstained=True, citations=())


def declined(answer: Answer) -> str | None:
    """The non-answer of the method (``NON_ANSWER`` in the trace); None if it has an answer."""
    notes = (step.data for step in answer.trace.steps if isinstance(step, Note) and step.name == NON_ANSWER)
    return next((str(data["said"]) for data in notes), None)


def support_notice(answer: Answer) -> str:
    """Return the warning that goes with an answer that is not supported; "" if it is, or if there is none."""
    if answer.supported or answer.abstained:
        return ""
    if answer.support == "contradicted" and answer.quotation:
        return CONTRADICTED.format(printable(answer.quotation.answer))
    return NOT_VERIFIED if answer.citations else UNCITED


def references(answer: Answer) -> list[Reference]:
    """Return the passages that an answer cites, each once with all its numbers, in the order of the first number."""
    evidence = (passage for piece in answer.evidence for passage in piece.passages)
    known = {passage.id: passage for passage in (*answer.passages, *evidence)}
    cited: dict[str, list[Citation]] = {}
    for citation in sorted(answer.citations, key=lambda citation: citation.marker):
        if citation.passage_id in known:
            cited.setdefault(citation.passage_id, []).append(citation)
    return [
        Reference(
            tuple(dict.fromkeys(citation.marker for citation in citations)),
            known[name],
            tuple(dict.fromkeys((c.start, c.end) for c in citations if c.start is not None and c.end is not None)),
        )
        for name, citations in cited.items()
    ]


def with_citation_marks(answer: Answer) -> str:
    """Return the answer with citation marks.

    If the method wrote marks, they are returned with the reasoning around them; else the marks of the passages that
    contain the answer verbatim follow the answer.
    """
    if not answer.content:
        marks = "".join(f"[{citation.marker}]" for citation in answer.citations if citation.start is not None)
        return f"{answer.text} {marks}".strip() if answer.text else ""
    return answer.content if content_is_answer(answer) else f"{answer.text}\n\n{answer.content}".strip()


def content_is_answer(answer: Answer) -> bool:
    """True if the content is a long answer itself, not the reasoning of a short one.

    >>> content_is_answer(Answer("It is by Ann Lee.", content="It is by Ann Lee [1]."))
    True
    >>> content_is_answer(Answer("Ann Lee", content="It is by Ann Lee [1]."))
    False
    """
    return normalise(without_citation_marks(answer.content)) == normalise(answer.text)


def with_references(answer: Answer) -> str:
    """Return the answer ``in_words`` and a Markdown list of its references: number, title and location; of an
    abstention, the nearest passages. Links, images and HTML in the titles of the corpus are escaped, and the images and
    HTML of the answer itself, so that showing it loads no address that a text may have put into it.

    >>> mill = Passage("p1", "Mill [film]", "Mill is by Ann Lee.")
    >>> print(with_references(Answer("Ann Lee", passages=(mill,), citations=(Citation(1, "p1", 11, 18),))))
    Ann Lee [1]
    <BLANKLINE>
    - [1] Mill \\[film\\]
    """
    cited, more = _sources(answer)
    lines = [f"- {each.marks} {in_markdown(title_and_location(each.passage))}" for each in cited]
    lines += [f"- {more}"] if more else []
    words = _LOADING.sub(lambda mark: "\\" + mark[0], in_words(answer))
    return "\n\n".join(filter(None, (words, "\n".join(lines))))


def _sources(answer: Answer) -> tuple[list[Reference], str]:
    """Return the references of an answer; of an abstention, the nearest passages, with how many more there are."""
    if not answer.abstained:
        return references(answer), ""
    more = len(answer.not_cited) - len(answer.nearest)
    return [Reference((), passage) for passage in answer.nearest], f"and {more:,} more" if more else ""


def in_words(answer: Answer) -> str:
    """Return the answer ``with_citation_marks``; an abstention says that there is no answer."""
    return NO_ANSWER if answer.abstained else with_citation_marks(answer)


def trust(answer: Answer) -> str:
    """Return an answer's support and confidence in a few words; "" for an abstention."""
    sure = "" if answer.confidence is None else f", confidence {answer.confidence:.2f}"
    return "" if answer.abstained else f"{answer.support}{sure}"


def title_and_location(passage: Passage) -> str:
    """Return the title of a passage and its location in its document, on one line of printable text."""
    location = location_of(passage)
    return printable(f"{passage.title} ({location})" if location else passage.title) or printable(passage.id)


def in_markdown(text: str) -> str:
    """Escape the marks of Markdown and HTML in a text, on one line."""
    return _MARKDOWN.sub(lambda mark: "\\" + mark[0], printable(text))


def location_of(passage: Passage) -> str:
    """Describe the location of a passage in its document, without a heading that its title names; "" for a passage of
    another corpus.

    >>> metadata = {"source": "report.pdf", "page": 3, "last_page": 4, "heading": "Findings"}
    >>> location_of(Passage("1", "Report › Findings", "", metadata=metadata))
    'report.pdf, pp. 3–4'
    >>> location_of(Passage("1", "Findings", "", metadata=metadata)), location_of(Passage("2", "Ada", ""))
    ('report.pdf, pp. 3–4', '')
    >>> location_of(Passage("1", "Report", "", metadata=metadata))
    'report.pdf, pp. 3–4, Findings'
    """
    source, page, last, heading = (passage.metadata.get(name) for name in ("source", "page", "last_page", "heading"))
    if not isinstance(source, str):
        return ""
    pages = f"pp. {page}–{last}" if last else f"p. {page}" if page else ""
    is_named = isinstance(heading, str) and f"{SECTION}{passage.title}".endswith(f"{SECTION}{heading}")
    return ", ".join(part for part in (source, pages, None if is_named else heading) if part)


def signals_of(answer: Answer, final: Output | Completion | None) -> dict[str, float]:
    """Return what is known of an answer's chance to be right, each from 0 to 1: the ``probability`` that the method or
    the model gives it, and the ``agreement``, the share of the evidence with the same answer; n pieces that all agree
    count (n + 1) / (n + 2), by Laplace's rule."""
    signals: dict[str, float] = {}
    own = answer.confidence
    if own is None and final is not None and answer.text:
        own = final.probability(answer.text)
    if own is not None:
        signals["probability"] = own
    if proposed := [normalise(piece.answer) for piece in answer.evidence if piece.answer]:
        agreeing, pieces = proposed.count(normalise(answer.text)), len(proposed)
        signals["agreement"] = agreeing / pieces if agreeing < pieces else (pieces + 1) / (pieces + 2)
    return signals


def confidence(answer: Answer, final: Output | Completion | None) -> float | None:
    """Return the confidence of an answer without a calibration: the model's probability of its words if it gives one,
    else the agreement of the evidence, else None."""
    signals = signals_of(answer, final)
    return signals.get("probability", signals.get("agreement")) if answer.text else None


# --- in a notebook


def as_html(answer: Answer) -> str:
    """Return an answer as HTML for a notebook: its text, its references or nearest passages and its steps, escaped."""
    parts = [f"<p><b>{_html(in_words(answer))}</b> <small>{_html(trust(answer))}</small></p>"]
    cited, more = _sources(answer)
    parts += [f"<ul>{''.join(map(_reference_html, cited))}</ul>{more}"] if cited else []
    if answer.trace and (steps := _steps_html(answer.trace, None)):
        cost = f"{counted(answer.usage.calls, 'model calls')}, {counted(answer.usage.searches, 'searches')}"
        parts.append(f"<details><summary>Steps: {cost}</summary>{steps}</details>")
    return f"<div>{''.join(parts)}</div>"


def _reference_html(cited: Reference) -> str:
    """Return a passage, with what the answer cites of it marked."""
    text, start, end = cited.passage.text, *(cited.spans[0] if cited.spans else (0, 0))
    first = max(0, end - _MAX_EXCERPT)
    last = min(len(text), first + _MAX_EXCERPT)
    marked = f"<mark>{_html(text[start:end])}</mark>" if end else ""
    excerpt = f"{'…' * (first > 0)}{_html(text[first:start])}{marked}{_html(text[end:last])}{'…' * (last < len(text))}"
    return f"<li>{cited.marks} <b>{_html(title_and_location(cited.passage))}</b><br>{excerpt}</li>"


def _steps_html(trace: Trace, parent: int | None) -> str:
    """Return the branches and searches under a step as a list, "" if there are none."""
    items = []
    for step in trace.children(parent):
        if isinstance(step, Branch):
            verdict = f"<i>{_html(step.verdict or '')}</i>"
            items.append(f"<li>{_html(step.label)} {verdict}{_steps_html(trace, step.id)}</li>")
        elif isinstance(step, Searched):
            items.append(f"<li>search: {_html(step.query)}</li>")
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _html(text: str) -> str:
    return escape(printable_lines(text))
