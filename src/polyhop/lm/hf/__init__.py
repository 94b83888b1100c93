"""Language models of transformers that run here: ``hf:PATH_OR_NAME``."""

from polyhop.lm.hf.model import TransformersLM

__all__ = ["TransformersLM"]
