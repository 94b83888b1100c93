"""Reading by rules: a question and passages parsed, facts followed and compared, an answer read and judged."""
