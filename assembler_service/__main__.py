"""`python -m assembler_service` is `assembler-service`."""

from assembler_service.cli import main

main()
