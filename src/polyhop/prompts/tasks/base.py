"""A prompt task, and the base class of every typed output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources.abc import Traversable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, PrivateAttr, model_validator

from polyhop.lm.base import Completion
from polyhop.prompts.non_answers import is_non_answer

Fields = Mapping[str, Any]


class Output(BaseModel):
    """A task's typed output; ``completion`` is the reply it came from (text, tokens, log-probabilities).

    A field's description is what the json rendering says of it. Values are taken as models fill in forms: keys in any
    case, a number or true where text is asked for, "N/A" where null is. A text that only says that there is no answer
    (``is_non_answer``) is null, or empty, so that no method takes it for knowledge, evidence or a query; in ``ANSWER``,
    the field that can answer the question asked, it stands.
    """

    ANSWER: ClassVar[str] = ""

    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True, coerce_numbers_to_str=True)
    _completion: Completion | None = PrivateAttr(default=None)
    _question: str = PrivateAttr(default="")

    @model_validator(mode="before")
    @classmethod
    def _as_meant(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        texts = _texts_of(cls)
        named = {str(name).strip().lower(): value for name, value in given.items()}
        return {
            name: _meant(value, texts[name], stands=name == cls.ANSWER) if name in texts else value
            for name, value in named.items()
        }

    def missing(self) -> str | None:
        """Say what a reply of the right shape still lacks, in words for the model; None if nothing."""
        return None

    def declines(self, answer: str) -> bool:
        """Return True if ``answer`` only says that the question has none."""
        return is_non_answer(answer, self._question)

    @property
    def completion(self) -> Completion:
        """The model's reply behind this output."""
        if self._completion is None:
            raise AttributeError("this output was not made by a language model call")
        return self._completion

    def with_completion(self, completion: Completion, question: str = "") -> Output:
        """This output, remembering the reply it came from and the question that was asked."""
        self._completion = completion
        self._question = question
        return self

    def probability(self, answer: str, *, least: bool = False) -> float | None:
        """Return the probability of the answer's first writing in the reply (``Completion.probability``)."""
        return self.completion.probability(answer, least=least, question=self._question)


@cache
def _texts_of(output: type[Output]) -> Mapping[str, str | None]:
    """The fields that take text or a list of it, each with what it holds where nothing is said: null where it may."""
    kinds = (str, str | None, list[str])
    fields = output.model_fields.items()
    return {name: "" if field.annotation is str else None for name, field in fields if field.annotation in kinds}


def _meant(value: Any, nothing: str | None, *, stands: bool) -> Any:
    """A value as a field of text takes it, which holds ``nothing`` where nothing is said; ``stands``: it keeps words
    that mean nothing."""
    if isinstance(value, str):
        return nothing if not value.strip() or (not stands and is_non_answer(value)) else value
    if isinstance(value, (list, tuple)):
        return [item for item in value if not (isinstance(item, str) and is_non_answer(item))]
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value


@dataclass(frozen=True, slots=True)
class Task:
    """One named prompt task.

    ``fields``: the names it must be given. ``parse(text, fields)`` reads the text form into the output's fields or
    raises ``Malformed``; ``write(output, fields)`` is its inverse, for demonstrations. ``default`` is the safe output
    when two replies in a row could not be read. ``show`` renders fields that need more than their type's own way.
    ``asked_if``: output fields that are asked for only where that field of the call is true ("" for never).
    ``folder``: where its prompt file is, ``NAME.md``, and its demonstrations, ``NAME.demos.jsonl``, if it has any; None
    for the tasks that polyhop ships.
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
    folder: Traversable | None = None

    def asked(self, fields: Fields) -> list[str]:
        """The names of the output's fields that a call asks for, in order."""
        unasked = {name for name, switch in self.asked_if.items() if not (switch and fields[switch])}
        return [name for name in self.output.model_fields if name not in unasked]


@dataclass(frozen=True, slots=True)
class ScoredTask:
    """One task that generates nothing: a model scores a given text after the prompt.

    ``fields``: what the prompt shows, or is steered by. ``target``: the field that the scored text states, which the
    prompt must not show; a call is given it too. ``passages`` stand in the prompt as the file's ``# Passage`` part
    says. ``optional``: the fields that a prompt file need not use.
    """

    name: str
    target: str
    fields: tuple[str, ...]
    optional: tuple[str, ...] = ()
