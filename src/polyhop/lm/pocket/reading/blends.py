"""How much what the encoder sees counts for beside the reasons in ``weights``: on training questions that the network
had not seen, as ``benchmarks/pocket_blend.py`` fits it; ``BRIDGE`` alone was set by hand."""

from __future__ import annotations

from typing import NamedTuple


class Blend(NamedTuple):
    """What a judgement's log-odds by the reasons, by the encoder, and one count for."""

    reasons: float
    encoder: float
    constant: float

    def odds(self, reasons: float, encoder: float) -> float:
        """What both come to."""
        return self.reasons * reasons + self.encoder * encoder + self.constant


# Whether a path bears on the question, and whether it is enough (``judging.relevant``, ``sufficient``).
RELEVANCE = Blend(0.27, 0.37, -0.62)
SUFFICIENCY = Blend(0.64, 0.28, -0.62)

# A candidate's reasons, and the logarithm of how likely the encoder reads it off the pages, which is at least the last
# number: of an answer (``reading.rank``), of a name that leads on (``queries.bridge_score``).
READING: tuple[float, float, float] = (0.10, 1.00, -7.00)
BRIDGE: tuple[float, float, float] = (1.00, 0.50, -6.00)

# For an answer to be right (``narrowing.sureness``): that a rule settled it, its share, how likely it is read, and one.
SURE: tuple[float, float, float, float] = (2.03, 0.84, 2.06, -1.58)
