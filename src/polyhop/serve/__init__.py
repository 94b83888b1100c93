"""The service that answers questions, and the HTTP API, page and agent tools over it."""
