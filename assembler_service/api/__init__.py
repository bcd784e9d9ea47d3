"""Where protobuf and gRPC stop."""
