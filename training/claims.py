"""Examples of questions of yes or no over the few sentences that decide them, and over others that do not.

    python -m training.claims OUT [--replay EXAMPLES ...] [--share N] [--seed N]

From the sets of everyday documents (``training.sets``; domains that are held out are not read), from quotations of them
(``training.quotes``), and from notes (``training.notes``), whose other questions are read too. EXAMPLES: files of
earlier stages, of each of which N are mixed in, so that what was learnt before is kept.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from polyhop import Passage
from polyhop.common.text import normalise, occurrences, words
from polyhop.lm.pocket.reading.claims import Excerpt, excerpt
from polyhop.lm.pocket.reading.passage import ParsedPassage, parse_passage
from polyhop.lm.pocket.reading.question import parse_question
from training.data import Example, answered, read, sampled, spans_of, unanswered, write_mixed
from training.everyday import asked_of, passage_of
from training.notes import Note, notes
from training.quotes import Quote, quotes
from training.sets import FOLDER, Question, Step, corpus_of, sets


def of_documents(folder: Path, chance: random.Random) -> Iterator[Example]:
    """The questions of yes or no of the sets, over the sentences that decide them, and over the nearest others."""
    for asked, passages in asked_of(folder):
        is_open = asked.kind == "unanswerable" and parse_question(asked.text).type == "boolean"
        if asked.kind == "boolean" or is_open:
            yield from _asked(asked, passages, chance)


def _asked(asked: Question, passages: Sequence[Passage], chance: random.Random) -> Iterator[Example]:
    own = [part for step in asked.steps if (part := quoted(step, passages, chance))]
    if not own or len(own) < len(asked.steps):
        return
    if asked.answers:
        together = sorted(dict.fromkeys(own))[:4]
        yield answered("claim", asked.text, [(title, text) for title, text in together], [], asked.answers[0])
    else:
        yield unanswered("claim_open", asked.text, [(own[0].title, own[0].text)], relevant=None)
    quotes = [set(words(step.quote)) for step in asked.steps]
    for part in nearest(asked.text, passages, chance)[:2]:
        inside = set(words(part.text))
        if not any(quote <= inside for quote in quotes):
            yield unanswered("claim_near", asked.text, [(part.title, part.text)])
            return


def quoted(step: Step, passages: Sequence[Passage], chance: random.Random, around: int = 1) -> Excerpt | None:
    """The sentences of a step's quotation, and up to ``around`` before and after; None if they are in no single
    passage."""
    page = parse_passage(passage_of(step, passages))
    found = next(occurrences(" ".join(step.quote.split()), page.text), None)
    if found is None or not page.sentence_of:
        return None
    first, last = page.sentence_at(found[0]), page.sentence_at(max(found[0], found[1] - 1))
    return excerpt(page, first, last, chance.randint(0, around), chance.randint(0, around))


def of_quotes(folder: Path, found: Iterable[Quote], chance: random.Random) -> Iterator[Example]:
    """The questions about quotations from the sets, over the sentences that are quoted."""
    passages = {f"{held.domain}/{held.name}": list(corpus_of(held)) for held in sets(folder)}
    for quote in found:
        own = passages.get(f"{quote.domain}/{quote.set}", [])
        if not any(passage.metadata["source"] == quote.step.path for passage in own):
            continue
        for text, answer in quote.questions:
            is_open = answer == "none"  # which a sentence beside may decide
            if over := quoted(quote.step, own, chance, around=0 if is_open else 1):
                held = [(over.title, over.text)]
                if is_open:
                    yield unanswered("claim_open", text, held, relevant=None)
                else:
                    yield answered("claim", text, held, [], answer)


def nearest(question: str, passages: Sequence[Passage], chance: random.Random) -> list[Excerpt]:
    """The sentences that share most words with a question, best first, each with none or one around."""
    asked = set(normalise(question).split())
    ranked: list[tuple[int, int, int, ParsedPassage]] = []
    for order, passage in enumerate(passages):
        page = parse_passage(passage)
        title = set(normalise(page.title).split())
        for number in dict.fromkeys(page.sentence_of):
            shared = asked & (title | set(normalise(page.sentence(number)).split()))
            ranked.append((-len(shared), order, number, page))
    ranked.sort(key=lambda each: each[:3])
    return [excerpt(page, at, at, chance.randint(0, 1), chance.randint(0, 1)) for _, _, at, page in ranked[:4]]


def of_note(note: Note) -> Iterator[Example]:
    """The questions of a note over each of its versions."""
    for asked in note.questions:
        for text, answer in zip(note.texts, asked.answers, strict=True):
            over = [(note.title, text)]
            if answer == "none":
                source = "note_claim_open" if asked.yes_or_no else "note_open"
                yield unanswered(source, asked.text, over, relevant=None)
            elif asked.yes_or_no:
                yield answered("note_claim", asked.text, over, [], answer)
            elif spans := spans_of([answer], over, [0]):
                yield answered("note", asked.text, over, spans)


def main() -> None:
    """Write the examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--replay", type=Path, nargs="*", default=[])
    parser.add_argument("--share", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    made = list(of_documents(FOLDER, chance))
    made += of_quotes(FOLDER, quotes(), chance)
    made += [example for note in notes() for example in of_note(note)]
    made += sampled(map(read, given.replay), given.share, chance)
    write_mixed(made, given.out, chance)


if __name__ == "__main__":
    main()
