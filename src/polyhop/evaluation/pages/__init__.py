"""One self-contained HTML file of runs: tables, plots, every question with its traces. No network, no library."""
