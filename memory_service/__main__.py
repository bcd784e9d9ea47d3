"""`python -m memory_service` is `memory-service`."""

from memory_service.cli import main

main()
