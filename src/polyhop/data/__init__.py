"""Corpora and datasets: each format one reader."""
