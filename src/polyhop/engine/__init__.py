"""The engine: everything that happens while one question is answered."""
