"""Adapters to and from LangChain, LlamaIndex and Haystack: a module per framework, each with its own extra."""
