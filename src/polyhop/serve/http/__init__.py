"""The service over HTTP: FastAPI routers, imported only when the app is created, since FastAPI is an extra."""
