"""Implementations of the ports. Drivers' errors are translated here and go no further."""
