"""Generated workloads (JAX) and the source that feeds recorded traces to the engine."""
