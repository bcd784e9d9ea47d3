"""MemoryService: long-term memory of users over gRPC."""
