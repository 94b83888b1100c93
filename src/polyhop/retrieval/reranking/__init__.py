"""Rerankers: by a network that scores a query and a passage together, or by a language model that is asked."""
