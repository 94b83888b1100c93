"""Retrievers that other servers run: any that speaks a small JSON contract, and web search."""
