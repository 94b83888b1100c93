"""``python -m polyhop`` is the ``polyhop`` command."""

from polyhop.cli import main

main()
