"""What both servers share: configuration, errors, authentication, telemetry, the gRPC server and its generated code."""
