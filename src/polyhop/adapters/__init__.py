"""Ours as theirs and theirs as ours: LangChain, LlamaIndex and Haystack, each in a module behind its extra."""
