"""The prompt tasks: for each, the fields it is given and the typed output it gives back.

One output shape serves both renderings: the ``text`` form (the papers' markers) is read by ``parse`` and written by
``write``; the ``json`` form and its schema derive from the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from polyhop.errors import UnknownName
from polyhop.prompts import parsing
from polyhop.prompts.answers import says_nothing
from polyhop.prompts.show import show_evidence

if TYPE_CHECKING:
    from polyhop.lm.base import Completion


class Output(BaseModel):
    """A task's typed output; ``completion`` is the reply it came from (text, tokens, log-probabilities).

    A field's description is what the json rendering says of it. Values are taken as models fill in forms: keys in any
    case, a number or true where text is asked for, "N/A" where null is.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True, coerce_numbers_to_str=True)
    _completion: Completion | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _as_meant(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        named = {str(name).strip().lower(): value for name, value in given.items()}
        return {name: cls._value_meant(name, value) for name, value in named.items()}

    @classmethod
    def _value_meant(cls, name: str, value: Any) -> Any:
        kind = cls.model_fields[name].annotation if name in cls.model_fields else None
        if kind not in (str, str | None):
            return value
        if isinstance(value, str) and says_nothing(value):
            return "" if kind is str else None
        if isinstance(value, bool):
            return "yes" if value else "no"
        return value

    def missing(self) -> str | None:
        """What a reply of the right shape still lacks, in words for the model; None if nothing."""
        return None

    @property
    def completion(self) -> Completion:
        """The model's reply behind this output."""
        if self._completion is None:
            raise AttributeError("this output was not made by a language model call")
        return self._completion

    def with_completion(self, completion: Completion) -> Output:
        """This output, remembering the reply it came from."""
        self._completion = completion
        return self


class Review(Output):
    """ToR §3.2, Tables 7 and 8: is the path relevant, is it enough, and then its answer or the next query."""

    thought: str | None = Field(default=None, description="a short thought on each step")
    relevant: bool = Field(description="step 1")
    supported: bool = Field(description="step 2, are they enough")
    answer: str | None = Field(default=None, description="step 3, if supported")
    query: str | None = Field(default=None, description="step 3, if not supported")


class Supplement(Output):
    """ToR §3.4, Table 9 (missing paragraph completion): the missing information, from the model's own knowledge."""

    thought: str | None = Field(default=None, description="which fact is missing")
    information: str = Field(description="the missing fact, as an encyclopedia would word it")
    answer: str | None = Field(default=None, description="in a few words")


class MergedReview(Review):
    """A review that writes the missing paragraph itself: ToR's Tables 8 and 9 in one call (``mpc_merged``)."""

    information: str | None = Field(default=None, description="step 3, if not supported: the missing fact")


class Sufficiency(Output):
    """Whether what was gathered is enough to answer."""

    sufficient: bool = Field(description="whether it is enough")


class Response(Output):
    """A short answer, with the reasoning before it where the task asks for it."""

    rationale: str | None = Field(default=None, description="the reasoning")
    answer: str = Field(description="in as few words as possible")

    def missing(self) -> str | None:
        return 'the "answer" must not be empty' if says_nothing(self.answer) else None


Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One named prompt task.

    ``fields``: the names it must be given. ``parse(text, fields)`` reads the text form into the output's fields or
    raises ``Malformed``; ``write(output, fields)`` is its inverse, for demonstrations. ``default`` is the safe output
    when two replies in a row could not be read. ``show`` renders fields that need more than their type's own way.
    ``asked_if``: output fields that are asked for only where that field of the call is true ("" for never).
    """

    name: str
    fields: tuple[str, ...]
    output: type[Output]
    parse: Callable[[str, Fields], dict[str, Any]]
    write: Callable[[Any, Fields], str]
    default: Fields
    show: Mapping[str, Callable[[Any, Fields], str]] = field(default_factory=dict)
    demonstrations: str = ""
    """The task whose demonstrations this one shows, where it has none of its own."""
    asked_if: Mapping[str, str] = field(default_factory=dict)

    def asked(self, fields: Fields) -> list[str]:
        """The names of the output's fields that a call asks for, in order."""
        unasked = {name for name, switch in self.asked_if.items() if not (switch and fields[switch])}
        return [name for name in self.output.model_fields if name not in unasked]


_REJECT = {"relevant": False, "supported": False}

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            "tor.review",
            fields=("question", "passages", "thoughts"),
            output=Review,
            parse=parsing.read_review,
            write=parsing.write_review,
            default=_REJECT,
            asked_if={"thought": "thoughts"},
        ),
        Task(
            "cor.review",
            fields=("question", "passages", "thoughts"),
            output=Review,
            parse=parsing.read_review,
            write=parsing.write_review,
            default=_REJECT,
            asked_if={"thought": "thoughts"},
            demonstrations="tor.review",
        ),
        Task(
            "tor.complete",
            fields=("question", "passages"),
            output=Supplement,
            parse=parsing.read_supplement,
            write=parsing.write_supplement,
            default={"information": ""},
        ),
        Task(
            "tor.merged",
            fields=("question", "passages"),
            output=MergedReview,
            parse=parsing.read_merged,
            write=parsing.write_merged,
            default=_REJECT,
            asked_if={"thought": "", "query": ""},
        ),
        Task(
            "tor.enough",
            fields=("question", "evidence"),
            output=Sufficiency,
            parse=parsing.read_sufficiency,
            write=parsing.write_sufficiency,
            default={"sufficient": False},
            show={"evidence": show_evidence},
        ),
        Task(
            "tor.fuse",
            fields=("question", "evidence", "mode"),
            output=Response,
            parse=parsing.read_reasoned,
            write=parsing.write_reasoned,
            default={"answer": ""},
            show={"evidence": show_evidence},
        ),
        Task(
            "answer.direct",
            fields=("question",),
            output=Response,
            parse=parsing.read_direct,
            write=parsing.write_direct,
            default={"answer": ""},
            asked_if={"rationale": ""},
            demonstrations="answer.cot",
        ),
        Task(
            "answer.cot",
            fields=("question",),
            output=Response,
            parse=parsing.read_reasoned,
            write=parsing.write_reasoned,
            default={"answer": ""},
        ),
        Task(
            "answer.read",
            fields=("question", "passages"),
            output=Response,
            parse=parsing.read_direct,
            write=parsing.write_direct,
            default={"answer": ""},
            asked_if={"rationale": ""},
        ),
        Task(
            "answer.read_cot",
            fields=("question", "passages"),
            output=Response,
            parse=parsing.read_reasoned,
            write=parsing.write_reasoned,
            default={"answer": ""},
            demonstrations="answer.read",
        ),
    )
}


def task_named(name: str) -> Task:
    """The task of that name; an unknown one is an error that lists them."""
    try:
        return TASKS[name]
    except KeyError:
        raise UnknownName("prompt task", name, TASKS) from None
