"""Prompt tasks: their typed outputs, and the forms in which they are asked and answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from polyhop.errors import UsageError
from polyhop.lm.base import Completion, Continues
from polyhop.prompts.kinds import in_form_of
from polyhop.prompts.lines import FieldLine
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.parsing import Malformed, read_confidence

Fields: TypeAlias = Mapping[str, Any]
Confidence: TypeAlias = Annotated[float | None, BeforeValidator(read_confidence)]
"""A stated confidence, from 0 to 1, read as models write it."""

MAY_DECLINE = "may_decline"
"""The switch of every prompt, in no task's fields, for the part that lets a reply say that there is no answer."""

FORMS: Mapping[str, Continues] = MappingProxyType({"turn": "turn", "text": "text", "shown": "whole"})
"""The forms of a call that continues a text, and of its request; "shown": the text so far stands in the user's turn."""

OutputT = TypeVar("OutputT", bound="Output")


class Origin(NamedTuple):
    """The reply that an output was read from, and the question that was asked."""

    completion: Completion | None = None
    question: str = ""
    may_decline: bool = False
    parsed: bool = True


_NO_ORIGIN = Origin()


class Output(BaseModel):
    """A task's typed output; ``completion`` is the reply it came from (text, tokens, log-probabilities).

    The json form describes a field by its description. Values are read as models fill in forms: keys in any case, a
    number or true for text, "N/A" for null. A text that only says that there is no answer (``is_non_answer``) becomes
    null, or empty, so that no method takes it for knowledge, evidence or a query. ``ANSWER`` names the field that may
    answer the question asked: there such a text is kept. ``USABLE_INCOMPLETE``: if two replies in a row lack what is
    ``missing``, the output is used as it is, not the task's default.
    """

    __slots__ = ("_origin",)  # a private attribute of pydantic takes longer to make than all fields

    ANSWER: ClassVar[str] = ""
    USABLE_INCOMPLETE: ClassVar[bool] = False

    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True, coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _as_meant(cls, given: Any) -> Any:
        if not isinstance(given, (dict, Mapping)):  # an instance of dict itself is found at once
            return given
        texts = _texts_of(cls)
        named = {str(name).strip().lower(): value for name, value in given.items()}
        return {
            name: _meant(value, texts[name], is_answer=name == cls.ANSWER) if name in texts else value
            for name, value in named.items()
        }

    def missing(self) -> str | None:
        """Describe, for the model, what a reply of the right shape still lacks; None if it is complete.

        By default a reply lacks its answer if ``ANSWER`` is a required field and empty.
        """
        if self.own_answer or not self.ANSWER or not type(self).model_fields[self.ANSWER].is_required():
            return None
        return f'the "{self.ANSWER}" must not be empty'

    @property
    def own_answer(self) -> str:
        """The text of the field that ``ANSWER`` names; "" if the output has no answer."""
        return (self.ANSWER and getattr(self, self.ANSWER)) or ""

    def declines(self, answer: str) -> bool:
        """Return True if ``answer`` only says that the question has none."""
        return is_non_answer(answer, self._known_origin.question)

    @property
    def _known_origin(self) -> Origin:
        """The reply that this output was read from, and the question that was asked, as far as they are known."""
        return getattr(self, "_origin", _NO_ORIGIN)

    def _keep(self, origin: Origin) -> Self:
        object.__setattr__(self, "_origin", origin)
        return self

    @property
    def may_decline(self) -> bool:
        """True if the prompt let the reply say that the question has no answer."""
        return self._known_origin.may_decline

    @property
    def completion(self) -> Completion:
        """The model's reply that this output was read from."""
        if (completion := self._known_origin.completion) is None:
            raise AttributeError("this output was not made by a language model call")
        return completion

    def with_completion(
        self, completion: Completion, question: str = "", fields: Fields = MappingProxyType({})
    ) -> Self:
        """Keep the reply that this output came from and the question that was asked; return the output, its answer in
        the form of the kind of question that the call's ``fields`` name."""
        form = in_form_of(fields.get("kind", "qa"), self.own_answer)
        output = self if form == self.own_answer else self.model_copy(update={self.ANSWER: form})
        return output._keep(Origin(completion, question, bool(fields.get(MAY_DECLINE)), self.parsed))

    @property
    def parsed(self) -> bool:
        """False if the reply could not be read: the output is the task's default, or what was kept of the reply."""
        return self._known_origin.parsed

    def marked_unread(self) -> Self:
        """Mark the output as that of a reply that could not be read; return it."""
        return self._keep(self._known_origin._replace(parsed=False))

    def probability(self, answer: str, *, least: bool = False) -> float | None:
        """Return the probability of the answer's first occurrence in the reply (``Completion.probability``)."""
        return self.completion.probability(answer, least=least, question=self._known_origin.question)


@cache
def _texts_of(output: type[Output]) -> Mapping[str, str | None]:
    """Map each field of text, or of a list of texts, to its empty value: null if the field may be null."""
    kinds = (str, str | None, list[str])
    fields = output.model_fields.items()
    return {name: "" if field.annotation is str else None for name, field in fields if field.annotation in kinds}


def _meant(value: Any, nothing: str | None, *, is_answer: bool) -> Any:
    """Convert a value for a field of text whose empty value is ``nothing``; an answer keeps words that mean nothing."""
    if isinstance(value, str):
        return nothing if not value.strip() or (not is_answer and is_non_answer(value)) else value
    if isinstance(value, (list, tuple)):
        return [item for item in value if not (isinstance(item, str) and is_non_answer(item))]
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value


Parse: TypeAlias = Callable[[str, Fields], dict[str, Any]]
Show: TypeAlias = Mapping[str, Callable[[Any, Fields], str]]
BY_TYPE: Show = MappingProxyType({})
"""Every field in the rendering of its type."""


@dataclass(frozen=True, slots=True)
class Task(Generic[OutputT]):
    """One named prompt task: what a call is given, and the typed output that ``Run.ask`` returns for it.

    Its json form derives from ``output``. Its text form is declared as ``lines``; a form that lines cannot declare has
    ``parse(text, fields)``, which reads a reply into the output's fields or raises ``Malformed``, and
    ``write(output, fields)``, its inverse, for demonstrations. A task without any of them is asked in json alone.
    """

    continues: ClassVar[bool] = False

    name: str
    fields: tuple[str, ...]
    """The names that a call must give."""
    output: type[OutputT]
    default: Fields
    """The safe output when two replies in a row could not be read."""
    lines: tuple[FieldLine, ...] = ()
    parse: Parse | None = None
    write: Callable[[OutputT, Fields], str] | None = None
    show: Show = field(default_factory=lambda: BY_TYPE)
    """Renders the fields that need more than the rendering of their type."""
    demonstrations: str = ""
    """The task whose demonstrations this one shows if it has none itself."""
    asked_if: Mapping[str, str] = field(default_factory=dict)
    """Output fields that are asked for only if that field of the call is true; "" for never."""
    unshown: tuple[str, ...] = ()
    """Fields that the prompt need not show, as the turns after it do; pocket and the trace use them."""
    folder: Traversable | None = None
    """The folder of ``NAME.md`` and, if the task has demonstrations, ``NAME.demos.jsonl``; None for a shipped task."""

    def __post_init__(self) -> None:
        if (self.parse is None) is not (self.write is None):
            raise UsageError(f"{self.name}: a text form needs both parse and write, or lines instead of them")

    @property
    def has_text_form(self) -> bool:
        """True if the task can be asked in text; a task without a text form is asked in json."""
        return bool(self.lines or self.parse)

    def asked(self, fields: Fields) -> list[str]:
        """Return the names of the output's fields that a call asks for, in order."""
        unasked = {name for name, switch in self.asked_if.items() if not (switch and fields[switch])}
        return [name for name in self.output.model_fields if name not in unasked]

    def read_text(self, text: str, fields: Fields) -> dict[str, Any]:
        """Read a reply in the text form into the output's fields.

        Raises:
            Malformed: the reply is in another form, or lacks a line of a field that has no default.
        """
        if self.parse:
            return self.parse(text, fields)
        values: dict[str, Any] = {}
        complaints: list[Malformed] = []
        for line in self.lines:
            try:
                values[line.field] = line.read(text, fields)
            except Malformed as complaint:
                complaints.append(complaint)
                if self.output.model_fields[line.field].is_required():
                    raise
        if not values:
            raise complaints[0] if complaints else Malformed("the reply must be one JSON object")
        return values

    def write_text(self, output: OutputT, fields: Fields) -> str:
        """Write an output in the text form, as a demonstration shows it."""
        if self.write:
            return self.write(output, fields)
        return "\n".join(line.write(getattr(output, line.field)) for line in self.lines)


@dataclass(frozen=True, slots=True)
class ContinuedTask(Task[OutputT]):
    """A task whose reply continues a text, in place of one that answers an instruction.

    The call's fields ``system``, ``user`` and ``assistant`` are its turns, the last of which is the text so far; it is
    asked in a ``form`` of ``FORMS``. No demonstration is shown, and no JSON is asked for. ``parse`` reads any reply;
    the field ``is_cut`` tells it if the token cap ended the reply.
    """

    continues: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class ScoredTask:
    """A task that generates nothing: a model scores a given text after the prompt.

    ``fields``: what the prompt shows, or is steered by. ``target``: the field that the scored text states; a call gives
    it, and the prompt must not show it. The file's ``# Passage`` part renders each of ``passages``. ``optional``: the
    fields that a prompt file need not use.
    """

    name: str
    target: str
    fields: tuple[str, ...]
    optional: tuple[str, ...] = ()
