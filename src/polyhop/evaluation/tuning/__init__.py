"""Fitting on labelled questions what papers leave open: a reader's threshold, a method's settings, PromptRank's."""
