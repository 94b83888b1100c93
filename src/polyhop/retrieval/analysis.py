"""The analysis that turns text into terms: one per language, for an index and for its queries alike.

Words are lower-cased, stop words dropped, stemmed (Snowball's stemmers and stop words, as tantivy brings them) and
folded: what is left of an accent does not count. English keeps stop words of its own and folds before it stems. The
languages of ``BIGRAMS``, written without blanks, are cut into pairs of characters; Latin words between them stay words.
Nothing is made of a language's two scripts (simplified and traditional Chinese are different terms).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from polyhop.common.text import STOP_WORDS, normalise_unicode, spaced_bigrams
from polyhop.errors import UnknownName

if TYPE_CHECKING:
    import tantivy

BIGRAMS = frozenset({"chinese", "japanese", "korean"})
WITHOUT_STOP_WORDS = frozenset({"arabic", "greek", "romanian", "tamil", "turkish"})
LANGUAGES = BIGRAMS.union(
    WITHOUT_STOP_WORDS,
    """danish dutch english finnish french german hungarian italian norwegian portuguese russian spanish
    swedish""".split(),
)
"""The languages there is an analysis for; of some, tantivy knows a stemmer and no stop words."""

_POSSESSIVE = "s"  # what is left of "King's" once the apostrophe has parted it
_WORD = r"[\p{L}\p{M}\p{N}]+"  # with marks: in Tamil and Arabic they stand inside words


@dataclass(frozen=True)
class Analysis:
    """An analysis of one language; ``stem`` and ``stop_words`` (whether they are dropped) switch off its steps. Safe
    across threads.

    >>> Analysis().terms("Who wrote the King's songs for Dvořák?")
    ['wrote', 'king', 'song', 'dvorak']
    >>> Analysis("german").terms("Die Häuser der Künstler")
    ['haus', 'kunstl']
    >>> Analysis("chinese").terms("鲁迅生于绍兴，UTF-8")
    ['鲁迅', '迅生', '生于', '于绍', '绍兴', 'utf', '8']
    >>> str(Analysis()), str(Analysis("german", stem=False, stop_words=False))
    ('english', 'german, not stemmed, all words')

    Raises:
        UnknownName: there is no such language; the message lists those there are.
    """

    language: str = "english"
    stem: bool = True
    stop_words: bool = True

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise UnknownName("language", self.language, LANGUAGES)

    def __str__(self) -> str:
        stemmed = self.stem or self.by_characters
        return self.language + ("" if stemmed else ", not stemmed") + ("" if self.stop_words else ", all words")

    @property
    def by_characters(self) -> bool:
        """True if its language is cut by characters, because it has no blanks between words."""
        return self.language in BIGRAMS

    @property
    def stemmer(self) -> str | None:
        """The Snowball stemmer it uses, if any."""
        return self.language if self.stem and not self.by_characters else None

    @property
    def settings(self) -> tuple[object, ...]:
        """The values that identify it. English leaves out the language: indexes are older than the choice."""
        choices = (self.stemmer, self.stop_words)
        return choices if self.language == "english" else (*choices, self.language)

    def terms(self, text: str) -> list[str]:
        """The terms of a text, in its order."""
        return self._tokenizer.analyze(self.prepared(text))

    def prepared(self, text: str) -> str:
        """A text as ``tokenizer`` wants it."""
        if self.language == "english":
            return text
        text = normalise_unicode("NFKC", text).replace("İ", "I")  # in lower case it would be two characters
        return spaced_bigrams(text) if self.by_characters else text

    def is_stop_word(self, word: str) -> bool:
        """True if a word carries no topic, whatever ``stop_words`` says."""
        if self.language == "english":
            return word.lower() in STOP_WORDS
        return not self._dropping.analyze(word)

    def tokenizer(self) -> tantivy.TextAnalyzer:
        """The steps after ``prepared``, for tantivy."""
        import tantivy

        filters = [tantivy.Filter.lowercase()]
        if self.stop_words:
            filters += self._stop_words()
        fold = tantivy.Filter.ascii_fold()
        stem = [tantivy.Filter.stemmer(self.stemmer)] if self.stemmer else []
        if self.language == "english":
            return _built(tantivy.Tokenizer.simple(), [*filters, fold, *stem])
        return _built(tantivy.Tokenizer.regex(_WORD), [*filters, *stem, fold])  # stemmers know words by their accents

    def _stop_words(self) -> list[tantivy.Filter]:
        import tantivy

        if self.language == "english":
            return [tantivy.Filter.custom_stopword([*sorted(STOP_WORDS), _POSSESSIVE])]
        known = self.language not in BIGRAMS | WITHOUT_STOP_WORDS
        return [tantivy.Filter.stopword(self.language)] if known else []

    @cached_property
    def _tokenizer(self) -> tantivy.TextAnalyzer:
        return self.tokenizer()

    @cached_property
    def _dropping(self) -> tantivy.TextAnalyzer:
        import tantivy

        return _built(tantivy.Tokenizer.regex(_WORD), [tantivy.Filter.lowercase(), *self._stop_words()])


ENGLISH = Analysis()


def _built(tokenizer: tantivy.Tokenizer, filters: list[tantivy.Filter]) -> tantivy.TextAnalyzer:
    import tantivy

    builder = tantivy.TextAnalyzerBuilder(tokenizer)
    for item in filters:
        builder = builder.filter(item)
    return builder.build()
