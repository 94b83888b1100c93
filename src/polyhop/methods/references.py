"""References of a final content (SearChain §3.3, tracing): the passage of a node for each citation mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from polyhop.common.sentences import sentences
from polyhop.common.text import citation_marks, find_folded
from polyhop.types import Citation, Passage

Source: TypeAlias = Literal["lm", "corrected", "completed"]
Verify: TypeAlias = Literal["containment", "reader", "none"]
"""The judge of a reference: it decides if the passage supports the fragment."""


class Found(NamedTuple):
    """The results of search and reader for a query: d, g and f of Algorithm 1; f is None if nothing was read."""

    passage: Passage | None = None
    answer: str | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A node of the correct reasoning path R: the passage found for it is its reference."""

    query: str
    answer: str
    found: Found
    source: Source

    @property
    def passage(self) -> Passage | None:
        """The reference; None if nothing was found or searched for."""
        return self.found.passage


@dataclass(frozen=True, slots=True)
class Reference:
    """A mark that resolves: node ``marker`` of the path, counted from 1, its answer and passage, and the piece of a
    sentence that is marked."""

    marker: int
    answer: str
    passage: Passage
    fragment: str

    def as_json(self, how: Verify, supported: bool) -> dict[str, Any]:
        """Return the reference as the trace records it; ``supported`` is null if it was not judged."""
        verdict = None if how == "none" else supported
        reference = {"marker": self.marker, "passage": self.passage.id, "fragment": self.fragment}
        return {**reference, "supported": verdict, "how": how}


@dataclass(frozen=True, slots=True)
class Content:
    """A final content: only the marks that have a passage, their references in order, and the number dropped."""

    text: str
    references: Sequence[Reference]
    dropped: int

    @property
    def cited(self) -> list[int]:
        """The numbers of the distinct nodes cited, in the order of their first marks."""
        return list(dict.fromkeys(reference.marker for reference in self.references))

    def citations(self) -> tuple[Citation, ...]:
        """Return a citation per cited node, with the position of the node's answer in its passage."""
        first = {reference.marker: reference for reference in self.references}
        return tuple(_citation(first[marker]) for marker in self.cited)

    def counts(self, how: Verify, supported: Mapping[int, bool]) -> dict[str, float]:
        """SKC and AMP's stand-ins (§4.3.4): distinct nodes cited, marks, and the share of them that is supported."""
        judged = [supported[reference.marker] for reference in self.references if how != "none"]
        share = {"supported references": sum(judged) / len(judged)} if judged else {}
        return {
            "skc": len(self.cited),
            "references": len(self.references),
            "marks dropped": self.dropped,
            **share,
        }


def resolve(content: str, path: Sequence[Recorded]) -> Content:
    """Find each mark's node; a mark without a node, or whose node has no passage, is dropped.

    >>> mill = Recorded("Who made Mill?", "Ann Lee", Found(Passage("p", "Mill", "Mill is by Ann Lee.")), "lm")
    >>> found = resolve("So. It is by Ann Lee [1], they say [2].", [mill])
    >>> found.text, [(reference.marker, reference.fragment) for reference in found.references], found.dropped
    ('So. It is by Ann Lee [1], they say.', [(1, 'It is by Ann Lee')], 1)
    """
    pieces: list[str] = []
    references: list[Reference] = []
    dropped = end = 0
    fragment = ""
    for start, after, numbers in citation_marks(content):
        before = content[end:start]
        fragment = (sentences(before.strip(" .,;:")) or [fragment])[-1]  # marks side by side mark the same
        kept = [(n, *there) for n in numbers if (there := _answer_and_passage(n, path))]
        pieces.append(f"{before}[{', '.join(str(n) for n, _, _ in kept)}]" if kept else before.rstrip(" "))
        references += [Reference(n, answer, passage, fragment) for n, answer, passage in kept]
        dropped += len(numbers) - len(kept)
        end = after
    return Content("".join(pieces) + content[end:], references, dropped)


def _answer_and_passage(number: int, path: Sequence[Recorded]) -> tuple[str, Passage] | None:
    if not 1 <= number <= len(path):
        return None
    node = path[number - 1]
    return (node.answer, node.passage) if node.passage else None


def holds(node: Recorded) -> bool:
    """Check that a node's passage contains its answer as whole words (ours: in the paper, people judged the marks)."""
    passage = node.passage
    return passage is not None and find_folded(node.answer, f"{passage.title}\n{passage.text}") is not None


def source_counts(path: Sequence[Recorded]) -> dict[str, float]:
    """Count Table 2's sources of knowledge; also mark the questions of Table 3's S_IR."""
    sources = [node.source for node in path]
    counts = {f"from {source}": sources.count(source) for source in ("lm", "corrected", "completed")}
    shares = {f"share {name}": count / len(path) for name, count in counts.items()} if path else {}
    return {"nodes": len(path), **counts, **shares, "changed by search": int(len(path) > counts["from lm"])}


def _citation(reference: Reference) -> Citation:
    start, end = find_folded(reference.answer, reference.passage.text) or (None, None)
    return Citation(reference.marker, reference.passage.id, start, end)
