"""HTTP for model servers and search servers alike."""
