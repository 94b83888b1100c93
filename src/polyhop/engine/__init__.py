"""Answering one question: model calls, searches, budget, speculation."""
