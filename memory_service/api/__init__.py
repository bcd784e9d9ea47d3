"""gRPC: protobuf stops here."""
