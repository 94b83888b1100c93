"""The service over HTTP: FastAPI routers, each imported where the app is made, since FastAPI is an extra."""
