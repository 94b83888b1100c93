"""The analysis that turns text into terms: one per language, for an index and for its queries alike.

Words are lower-cased, stop words are dropped, the others are stemmed (by the Snowball stemmers and stop words of
tantivy) and lose their accents. English has its own list of stop words, and loses accents before it is stemmed. The
languages of ``BIGRAMS``, written without blanks, are split into pairs of characters; Latin words between them stay
words. Two scripts of a language are not unified: simplified and traditional Chinese are different terms.
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
"""The supported languages; for some, tantivy has a stemmer but no stop words."""

_POSSESSIVE = "s"  # left of "King's" when the apostrophe splits it
_WORD = r"[\p{L}\p{M}\p{N}]+"  # with marks, which occur inside words in Tamil and Arabic


@dataclass(frozen=True)
class Analysis:
    """The analysis of one language. ``stem`` and ``stop_words`` switch its steps on. Safe across threads.

    >>> Analysis().terms("Who wrote the King's songs for Dvořák?")
    ['wrote', 'king', 'song', 'dvorak']
    >>> Analysis("german").terms("Die Häuser der Künstler")
    ['haus', 'kunstl']
    >>> Analysis("chinese").terms("鲁迅生于绍兴，UTF-8")
    ['鲁迅', '迅生', '生于', '于绍', '绍兴', 'utf', '8']
    >>> str(Analysis()), str(Analysis("german", stem=False, stop_words=False))
    ('english', 'german, not stemmed, all words')

    Raises:
        UnknownName: the language is not supported; the message lists those that are.
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
        """True if its language has no blanks between words, so that it is split by characters."""
        return self.language in BIGRAMS

    @property
    def stemmer(self) -> str | None:
        """The Snowball stemmer it uses, if any."""
        return self.language if self.stem and not self.by_characters else None

    @property
    def settings(self) -> tuple[object, ...]:
        """The values that identify it, without the language for English: old indexes had no other."""
        choices = (self.stemmer, self.stop_words)
        return choices if self.language == "english" else (*choices, self.language)

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text, in its order."""
        return self._tokenizer.analyze(self.prepared(text))

    def prepared(self, text: str) -> str:
        """Prepare a text for ``tokenizer``."""
        if self.language == "english":
            return text
        text = normalise_unicode("NFKC", text).replace("İ", "I")  # its lower case has two characters
        return spaced_bigrams(text) if self.by_characters else text

    def is_stop_word(self, word: str) -> bool:
        """Return True if a word is a stop word, even if ``stop_words`` is off."""
        if self.language == "english":
            return word.lower() in STOP_WORDS
        return not self._dropping.analyze(word)

    def tokenizer(self) -> tantivy.TextAnalyzer:
        """Build tantivy's analyzer of prepared texts."""
        import tantivy

        filters = [tantivy.Filter.lowercase()]
        if self.stop_words:
            filters += self._stop_words()
        fold = tantivy.Filter.ascii_fold()
        stem = [tantivy.Filter.stemmer(self.stemmer)] if self.stemmer else []
        if self.language == "english":
            return _built(tantivy.Tokenizer.simple(), [*filters, fold, *stem])
        return _built(tantivy.Tokenizer.regex(_WORD), [*filters, *stem, fold])  # stemmers need the accents

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
