"""Late interaction: a vector for every token, a passage scored by the best match of each of the query's."""
