"""Helpers that know nothing of questions, models or passages."""
