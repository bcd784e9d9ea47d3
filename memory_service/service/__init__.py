"""Use cases. They know ports and domain, and neither gRPC nor drivers."""
