"""polyhop: multi-hop question answering over your own documents or a benchmark's."""

from polyhop._version import __version__

__all__ = ["__version__"]
