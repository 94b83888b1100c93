"""Makes language model calls: which model a task is given to, in which form it is asked, and with which settings."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field

from polyhop.engine.call import Call, Fields, Options, freeze
from polyhop.engine.headroom import headroom_of
from polyhop.engine.models import Models, count_tokens
from polyhop.engine.roles import RoleOptions, body_of, options_of
from polyhop.engine.score_call import ScoreCall
from polyhop.errors import UsageError, nearest
from polyhop.lm.base import LanguageModel
from polyhop.prompts.book import PromptBook
from polyhop.prompts.prompt import Prompt, Rendering, RenderingChoice, warn_of_fewer
from polyhop.prompts.tasks import SCORED
from polyhop.prompts.tasks.base import MAY_DECLINE
from polyhop.types import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The language models and prompts, which together make calls.

    ``max_tokens_per_call`` replaces the token cap of every call, which its prompt file or its method sets otherwise.
    ``reasoning_tokens`` are added to the cap for thoughts; None adds ``HEADROOM`` for models that are found to think.
    ``rendering``: ``auto`` asks each model in the form that it prefers. Tasks with a field ``kind`` are given the
    question's ``kind``.
    ``allow_unanswerable`` switches on the part of a prompt that lets its reply decline to answer (``MAY_DECLINE``).
    """

    models: Models
    prompts: PromptBook = field(default_factory=PromptBook)
    rendering: RenderingChoice = "auto"
    max_tokens_per_call: int | None = None
    reasoning_tokens: int | None = None
    role_options: RoleOptions = field(default_factory=dict)
    kind: Kind = "qa"
    allow_unanswerable: bool = False
    _last: dict[Hashable, list[dict[str, str]]] = field(default_factory=dict, repr=False, compare=False)

    def model_of(self, task: str) -> LanguageModel:
        """Return the language model for a task, by the role of its prompt."""
        return self.models(task, self.prompts.role(task))

    def rendering_of(self, model: LanguageModel) -> Rendering:
        """Return the form in which a model is asked, unless its server turns out to refuse JSON schemas."""
        if self.rendering != "auto":
            return self.rendering
        return "json" if model.capabilities.prefers_json else "text"

    @property
    def renderings(self) -> str:
        """The form in which the models are asked; if it differs, that of each role or task."""
        forms = {name: self.rendering_of(model) for name, model in sorted(self.models.by_name.items())}
        if len(set(forms.values())) == 1:
            return next(iter(forms.values()))
        return ", ".join(form if name == "default" else f"{name}={form}" for name, form in forms.items())

    def call(
        self,
        task: str,
        fields: Fields,
        options: Options | None,
        *,
        final: bool = False,
        ignoring: Collection[int] = (),
        has_tools: bool = False,
    ) -> Call:
        """Render the call of a task. Its options override the head of the prompt file. ``ignoring``: the ``id`` of each
        model that is asked in text because its server ignores schemas. ``auto`` asks a call with tools in text: many
        servers forbid calls beside a schema."""
        prompt = self.prompts[task]
        fields = {"kind": self.kind, **fields} if "kind" in prompt.task.fields else fields
        check_fields(task, fields, prompt.task.fields)
        fields = {**fields, MAY_DECLINE: True} if self.allow_unanswerable and prompt.may_decline else fields
        settings = prompt.options(fields)
        own = options_of(self.role_options, task, (options or {}).get("role", settings["role"]))
        settings["temperature"] = own.get("temperature", settings["temperature"])
        cap = own.get("max_tokens_per_call", self.max_tokens_per_call)
        room = own.get("reasoning_tokens", self.reasoning_tokens)
        settings |= {"logprobs": False, **(options or {})}
        settings["max_tokens"] = cap or settings["max_tokens"]
        model = self.models(task, settings["role"])
        wanted = self.rendering_of(model)
        may_choose = self.rendering == "auto" and model.capabilities.json_schema and not has_tools
        chosen = wanted == "json" and may_choose
        rendering = prompt.form_of(wanted if chosen or self.rendering != "auto" else "text")
        chosen = chosen and rendering == "json"
        if ignored := chosen and id(model) in ignoring:
            chosen, rendering = False, prompt.form_of("text")
        turns = self._render(prompt, fields, rendering, settings["shots"])
        if (
            not prompt.task.continues and (shown := len(turns) // 2 - 1) < settings["shots"]
        ):  # two turns a demonstration, the system's and the input
            warn_of_fewer(task, shown, settings["shots"])
            settings["shots"] = shown
        body, headroom = body_of(own), headroom_of(self.models.memory(model), cap, room)
        return Call(
            prompt, fields, settings, model, rendering, turns, headroom,
            final=final, extra_body=body, chosen=chosen, ignored=ignored,
        )  # fmt: skip

    def _render(self, prompt: Prompt, fields: Fields, rendering: Rendering, shots: int) -> list[dict[str, str]]:
        """Render a prompt; the last is kept, because a call that was fitted into a context is made next."""
        key = (prompt.task.name, rendering, shots, *[freeze(fields[name]) for name in prompt.task.fields])
        if (turns := self._last.get(key)) is None:
            turns = prompt.render(fields, rendering=rendering, shots=shots)
            self._last.clear()
            self._last[key] = turns
        return list(turns)

    def score_call(
        self, task: str, targets: Sequence[str], temperature: float, fields: Fields, options: Options | None
    ) -> ScoreCall:
        """Render the call that scores ``targets`` after the prompt of a task."""
        model, prompt = self._scored_prompt(task, fields, options)
        return ScoreCall(task, fields, model, prompt, targets, temperature)

    def prompt_tokens(self, task: str, fields: Fields, options: Options | None) -> int:
        """Count the tokens of the prompt of a task: instruction, demonstrations and input."""
        if task in SCORED:
            return count_tokens(*self._scored_prompt(task, fields, options))
        return self.call(task, fields, options).prompt_tokens

    def _scored_prompt(self, task: str, fields: Fields, options: Options | None) -> tuple[LanguageModel, str]:
        """Return the model that scores a task, and the whole prompt as one text."""
        if task not in SCORED:
            call = self.call(task, fields, options)
            return call.model, "\n\n".join(turn["content"] for turn in call.turns)
        prompt = self.prompts.scored(task)
        check_fields(task, fields, (prompt.task.target, *prompt.task.fields))
        return self.models(task, (options or {}).get("role", prompt.settings.role)), prompt.render(fields)


def check_fields(task: str, fields: Fields, known: Sequence[str]) -> None:
    """Check that a task is asked with exactly its fields; else raise ``UsageError``."""
    if fields.keys() == set(known):
        return
    wrong = sorted(fields.keys() ^ set(known))
    hint = nearest(wrong[0], known)
    raise UsageError(
        f"{task} is asked with the fields {', '.join(known)}; {', '.join(wrong)} "
        f"{'is' if len(wrong) == 1 else 'are'} missing or unknown" + (f" ({hint}?)" if hint else "")
    )
