"""Modules that are made of an extra have no doctests where it is not installed."""

from importlib.util import find_spec

from polyhop.common.extras import is_installed

NEED = {
    "langchain": "src/polyhop/adapters/langchain.py",
    "llamaindex": "src/polyhop/adapters/llamaindex.py",
    "haystack": "src/polyhop/adapters/haystack.py",
}

collect_ignore = [module for extra, module in NEED.items() if not is_installed(extra)]
if find_spec("dspy") is None:
    collect_ignore.append("src/polyhop/adapters/dspy.py")
