"""One file for each table or figure with numbers in the five papers: ``tor-table1.toml`` is the recipe ``tor/table1``.

``polyhop.evaluation.reproduction.recipe`` defines their fields.
"""
