"""``polyhop sweep``: methods at many settings over the same questions, sharing what they ask."""
