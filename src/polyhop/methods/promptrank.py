"""PromptRank: paths of passages ranked by the likelihood of the question after them under a language model.

Khalifa, Logeswaran, Lee, Lee, Wang: "Few-shot Reranking for Multi-hop QA via Language Model Prompting", 2023. The
public code carries no licence: facts of it are followed where the paper is silent, none of its text.

Followed: §2 with the values of §3. TF-IDF finds ``first`` passages; each is a path. The ``keep`` best paths are
extended by ``links`` hyperlinks of their last passage, those most similar to the question; longer paths are scored
whole. A passage has the score of its best path. As in the code, a score is the mean over the question's tokens, a cut
passage ends with a full stop and the question with its mark, and link targets are compared by their own TF-IDF.
Settled here: only the paths that are needed are scored (115 at the defaults, not 145). In a corpus without hyperlinks,
the titles in its texts are the links. Equal scores keep the order of retrieval. The instruction and the demonstrations
are not the paper's (the prompt file ``promptrank.path``). By default, path score and reader's confidence are each
scaled to 0 to 1 over the paths read, whatever the reader's own scale, and count alike: chosen on training questions.

Example: "In which town was the director of Dark Mill born?" Of 100 passages that share words with it, the film's makes
the question likeliest; its page links to Ann Lee; the path film → Ann Lee makes it likelier still. The reader reads
both passages as one input and finds "Elstow" in the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Gt, Le, MultipleOf

from polyhop.answer import Answer
from polyhop.methods.path_prompts import Position
from polyhop.methods.path_reading import Combine, ask_reader
from polyhop.methods.path_score import Ensemble, PathScoring
from polyhop.methods.paths import POOLS, Path, beam_search, follows_links, linked, paths_of, ranked
from polyhop.methods.registry import method, select
from polyhop.prompts.tasks.answers import ANSWER_DIRECT, ANSWER_READ
from polyhop.types import Evidence, FileName, NonNegative, Passage, Positive

if TYPE_CHECKING:
    from polyhop.engine.call import Options
    from polyhop.engine.run import Run

DocumentScore: TypeAlias = Literal["max", "mean", "min", "longest"]


def _needs(settings: Mapping[str, Any]) -> tuple[str, ...]:
    reader = ("reader",) if settings["answer_by"] == "reader" else ()
    return ("retriever", *follows_links(settings), *reader, *select(PathScoring, settings).needs)


@method(
    "promptrank",
    family="system",
    calls=103,
    paper="PromptRank (Khalifa et al., 2023)",
    layers=lambda settings: int(settings["hops"]) + (settings["answer_by"] == "lm"),
    needs=_needs,
    retriever="tfidf:bigram",
    answers=lambda settings: settings["answer_by"] != "none",
)
async def promptrank(
    question: str,
    run: Run,
    *,
    first: Positive = 100,  # §3: F, passages of the first search
    keep: Positive = 5,  # §3: K, paths extended at every hop
    links: NonNegative = 3,  # §3: L, links followed from a path
    hops: Positive = 2,  # §3: H, maximum number of passages per path
    scorer: Literal["likelihood", "relevance"] = "likelihood",  # §2.1; "relevance": ours, yes or no, for chat models
    passage_tokens: Positive = 230,  # §3: longer passages are cut
    prompt_tokens: Positive | None = None,  # §3; None: 600, and 1,024 with demonstrations
    instruction: str | None = None,  # None: the prompt file's own; "none": none
    instructions: Sequence[str] = (),  # §2.2: several, in place of the one
    instructions_from: FileName = "",  # §2.2: the same from a file, one per line, best first
    ensemble_size: Positive = 1,  # Table 1: number of the file's instructions in use, the first N
    instruction_position: Position = "after",  # Figure 5: its position relative to the path
    ensemble: Ensemble = "max",  # §2.2: over the instructions
    temperature: Annotated[float, Gt(0)] | None = None,  # None: §3's 1.4, and 1 without an instruction
    demos: Annotated[int, Ge(0), MultipleOf(2)] = 0,  # §2.3: two per prompt
    demo_ensemble: Literal["max", "mean"] = "max",  # §2.3: over the prompts' demonstrations
    demos_from: FileName = "",  # §3.1: a file of labelled questions to draw them from; "": the prompt file's
    demo_seed: NonNegative | None = None,  # Figure 3: the seed that draws them; None: the run's; neither: the first
    titles: bool = False,  # each passage's title before its text; not in the paper's code
    order: Literal["link", "inverted"] = "link",  # Table A4: the path's passages as linked, or in reverse
    joint: bool = True,  # Table 4: a path is scored as a whole; false: each passage separately
    normalise: Literal["mean", "sum"] = "mean",  # over the question's tokens
    direction: Literal["question", "path"] = "question",  # §2.1: the text that is scored, given the other
    document_score: DocumentScore = "max",  # Appendix B: the score of a passage, over its paths
    answer_by: Literal["reader", "lm", "none"] = "reader",  # §3.2; "lm": one call over the first k passages
    read_paths: Positive = 100,  # Appendix C.1: number of paths that are read
    path_weight: Annotated[float, Ge(0), Le(1)] = 0.5,  # Appendix C.1: λ, the weight of the path score; 0.9 there
    combine: Combine = "scaled",  # Appendix C.1: raw, λ weighs both unscaled; scaled: each is scaled to 0 to 1
    k: Positive = 5,  # number of passages that a language model reads
    shots: NonNegative = 3,
) -> Answer:
    """Rank paths by the likelihood of the question given the path, extend the best by links, then read (§2)."""
    path_scorer = select(PathScoring, locals()).open(question, run)

    async def expand(path: Path) -> list[Passage]:
        return nearest(question, linked(path, run), run, links)

    found: list[Passage] = []
    with run.gathering():
        found = await run.search(question, first)
        await beam_search(found, path_scorer, expand, beam_width=keep, max_hops=hops)
    scores = path_scorer.scores
    paths = ranked(scores, scores)
    ranking_paths = paths if joint else [path for path in paths if len(path) == 1]  # §4.1: each by its own score
    passages = tuple(dict.fromkeys((*ranked_passages(ranking_paths, scores, document_score), *found)))
    run.note("paths", ranked=[{"passages": [p.id for p in path], "score": scores[path]} for path in paths])
    ranking = Answer("", passages, statistics={"paths scored": len(paths)})
    match answer_by:
        case "reader":
            return await ask_reader(question, run, ranking, paths[:read_paths], scores, path_weight, combine)
        case "lm":
            return await ask_model(question, run, ranking, passages[:k], shots)
        case _:
            return ranking


def nearest(question: str, passages: Sequence[Passage], run: Run, count: int) -> list[Passage]:
    """Return the ``count`` passages most like the question by TF-IDF fitted on them, whatever retrieves (§2)."""
    texts = [f"{passage.title}\n{passage.text}" for passage in passages]
    similarity = run.similarity(question, texts, lexical=True)
    return [passages[i] for i in sorted(range(len(passages)), key=lambda i: -similarity[i])[:count]]


def ranked_passages(paths: Sequence[Path], scores: Mapping[Path, float], how: DocumentScore) -> list[Passage]:
    """Rank the passages of ranked paths: by the best, mean or worst score of their paths, or by the score of the
    longest of them (Appendix B)."""
    by_passage = paths_of(paths)

    def value(passage: Passage) -> float:
        if how == "longest":
            return scores[max(by_passage[passage], key=len)]  # of equally long ones the first, which is the best
        return POOLS[how](scores[path] for path in by_passage[passage])

    return sorted(by_passage, key=lambda passage: -value(passage))


async def ask_model(question: str, run: Run, ranking: Answer, passages: tuple[Passage, ...], shots: int) -> Answer:
    """Answer in one call over the passages; from the model's own knowledge if there are none."""
    options: Options = {"shots": shots}
    if not passages:
        response = await run.ask(ANSWER_DIRECT, options=options, final=True, question=question)
        return replace(ranking, text=response.answer)
    response = await run.ask(ANSWER_READ, options=options, final=True, question=question, passages=list(passages))
    return replace(ranking, text=response.answer, evidence=(Evidence(passages, response.answer),))
