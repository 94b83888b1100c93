"""Runs a method over a dataset and says how well it did and what it cost."""
