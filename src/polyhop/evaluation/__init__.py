"""Runs of methods over datasets: scores, statistics, cost, and their comparison."""
