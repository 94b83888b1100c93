"""The manifest of a corpus in a search engine, which is kept there and says what was loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

from polyhop._version import __version__
from polyhop.common.text import counted
from polyhop.errors import UsageError, brief
from polyhop.retrieval.analysis import Analysis

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.index import Index

FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """The description of an engine's content: its corpus, the analysis of its texts, and the encoder of its vectors, if
    any. ``facts`` belong to the engine."""

    corpus: str
    fingerprint: str
    passages: int
    language: str
    stem: bool
    stop_words: bool
    encoder: str | None = None
    encoder_key: str | None = None
    size: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = False
    polyhop: str = __version__
    format: int = FORMAT

    @classmethod
    def of(cls, index: Index, encoder: Encoder | None) -> Manifest:
        """Describe the corpus of an index, to be loaded with the vectors of an encoder."""
        terms = index.analysis
        described = cls(index.name, index.fingerprint, len(index), terms.language, terms.stem, terms.stop_words)
        if encoder is None:
            return described
        return replace(described, encoder=encoder.name, encoder_key=short_key(encoder), size=encoder.size)

    @property
    def analysis(self) -> Analysis:
        """The analysis that turned its texts into terms."""
        return Analysis(self.language, self.stem, self.stop_words)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return asdict(self)

    @classmethod
    def read(cls, data: object, shown: str) -> Manifest:
        """Read the values of ``to_dict``. Raises ``UsageError`` for others, and ``Unfit`` for another format or
        values of other types."""
        needed = {item.name for item in fields(cls) if item.default is item.default_factory is MISSING}
        names = set(data) if isinstance(data, Mapping) else set()
        if not isinstance(data, Mapping) or "format" not in names or not (needed <= names or data["format"] != FORMAT):
            raise UsageError(
                f"{shown} was not loaded by polyhop, so it is neither searched nor written to; name another, and load "
                "it by polyhop index load"
            )
        if data["format"] != FORMAT:
            raise Unfit(
                f"{shown} was loaded in format {brief(data['format'])} by polyhop {brief(data.get('polyhop'))}; this "
                f"polyhop reads format {FORMAT}: load it again with --overwrite"
            )
        types = _types()
        values = {name: data[name] for name in types if name in data}
        if wrong := next((name for name, value in values.items() if not isinstance(value, types[name])), None):
            raise Unfit(
                f"{shown} has a description whose {wrong} cannot be {brief(values[wrong])}: it was changed since "
                "polyhop wrote it; load it again with --overwrite"
            )
        return cls(**values)

    def same(self, other: Manifest) -> bool:
        """Return True if both describe the same passages, terms and vectors."""
        return self._content() == other._content()

    def _content(self) -> Manifest:
        return replace(self, facts={}, complete=False, polyhop="")

    @property
    def vectors(self) -> str:
        """Its vectors and their encoder, in words."""
        return f"vectors of {counted(self.size, 'numbers')} by {self.encoder}" if self.encoder else "no vectors"

    def __str__(self) -> str:
        content = f"{counted(self.passages, 'passages')}, {self.fingerprint[:8]}; {self.analysis}; {self.vectors}"
        return f"{self.corpus!r} ({content})"


@cache
def _types() -> dict[str, Any]:
    """Return the type of each value, for ``isinstance``."""
    return {
        name: get_origin(hint) if get_origin(hint) is Mapping else hint
        for name, hint in get_type_hints(Manifest).items()
    }


def short_key(encoder: Encoder) -> str:
    """Hash an encoder's ``key`` to 16 digits."""
    return sha256(encoder.key.encode()).hexdigest()[:16]


class Unfit(UsageError):
    """A load by polyhop that has another format or was changed since; it may be overwritten."""
