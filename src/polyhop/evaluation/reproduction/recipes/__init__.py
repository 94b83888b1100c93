"""One file for each table or figure with numbers in the five papers: ``tor-table1.toml`` is the recipe ``tor/table1``.

What a file may hold is told by ``polyhop.evaluation.reproduction.recipe``.
"""
