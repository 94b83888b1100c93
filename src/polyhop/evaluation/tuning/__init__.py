"""Fitting of a reader's threshold, a method's settings and PromptRank's on labelled questions."""
