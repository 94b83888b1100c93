"""Qwen3-Reranker: a causal language model that says if a passage answers a query, "yes" or "no".

Source: Zhang, Li, Long, Zhang, Lin, Yang, Xie, Yang, Liu, Lin, Huang and Zhou, "Qwen3 Embedding: Advancing Text
Embedding and Reranking Through Foundation Models", 2025, §2, and the model's card. The model reads an instruction, a
query and a document in the form it was trained on, which is therefore the card's, word for word; the score is the logit
of "yes" less that of "no" at the last position. The card's probability of "yes" is its sigmoid and orders alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from polyhop.errors import UsageError
from polyhop.retrieval.checkpoints import Pretrained
from polyhop.retrieval.reranking.cross_encoder import CrossEncoder, Pairs, Row

INSTRUCT = "Given a web search query, retrieve relevant passages that answer the query"
MAX_TOKENS = 8192

_BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_PAIR = "<Instruct>: {}\n<Query>: {}\n<Document>: {}"
_AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
_TOKENS = ("no", "yes", "<|im_start|>", "<|im_end|>")


def is_qwen3(path_or_name: str) -> bool:
    """Return True for the name of a Qwen3-Reranker, or of a folder in whose path it stands."""
    return bool(re.search("qwen3-reranker", path_or_name, re.IGNORECASE))


class YesNoReranker(CrossEncoder):
    """A checkpoint of Qwen3-Reranker, recognised by its name or its folder's; with ``instruct``, one trained like it.

    A pair is cut at the end of the document, so that form and document take up to ``max_tokens``.
    """

    def __init__(
        self, checkpoint: Pretrained, *, instruct: str | None = None, max_tokens: int = MAX_TOKENS, **options: Any
    ) -> None:
        super().__init__(checkpoint.name, **options)
        self._from, self._instruct = checkpoint, unquote(str(instruct or INSTRUCT))
        if instruct is None and not is_qwen3(checkpoint.source):
            raise UsageError(
                f"{self.name} is a causal language model, of which only Qwen3-Reranker is known, by its name. For one "
                f"trained like it give its instruction, {self.name}?instruct=…; any other reranks as --rerank lm"
            )
        tokenizer = checkpoint.tokenizer.backend_tokenizer
        ids = [tokenizer.token_to_id(token) for token in _TOKENS]
        if None in ids:
            raise UsageError(f"{self.name}: its tokenizer lacks {_TOKENS[ids.index(None)]}: it is not a Qwen3-Reranker")
        self._ready(tokenizer, max_tokens)
        tokenizer.no_truncation()
        before, after = (tokenizer.encode(text, add_special_tokens=False).ids for text in (_BEFORE, _AFTER))
        tokenizer.encode_special_tokens = True  # marks within a document are text, so that none can end it
        self._before, self._after, self._pad = before, after, checkpoint.tokenizer.pad_token_id
        limit = min(max_tokens, checkpoint.positions())
        self._room = limit - len(before) - len(after)
        if self._room < 1:
            raise UsageError(f"{self.name}: {limit} tokens leave no room beside the {limit - self._room} of the form")
        network = checkpoint.network("AutoModelForCausalLM", what="causal language model")
        head = network.get_output_embeddings()
        self._network, self._head = network.base_model, (head.weight[ids[1]] - head.weight[ids[0]]).float()

    def _tokenized(self, query: str, texts: Sequence[str]) -> list[Row]:
        pairs = [_PAIR.format(self._instruct, query, text) for text in texts]
        found = self._tokenizer.encode_batch(pairs, add_special_tokens=False)
        rows = [[*self._before, *row.ids[: self._room], *self._after] for row in found]
        return [(row, [0] * len(row)) for row in rows]

    def _logits(self, pairs: Pairs) -> NDArray[Any]:
        torch = self._from.torch
        with torch.inference_mode():
            ids, mask = (torch.from_numpy(each).to(self._from.device) for each in pairs[:2])
            states = self._network(input_ids=ids, attention_mask=mask).last_hidden_state
            last = states[torch.arange(len(ids)), mask.sum(1) - 1].float()
            logits: NDArray[Any] = (last @ self._head)[:, None].cpu().numpy()
        return np.asarray(logits)
