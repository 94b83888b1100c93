"""Where people and programs meet polyhop: a service that answers, and the HTTP API, page and tools over it."""
