"""The use cases: assemble, count, report."""
