"""Helpers shared by the engine's tests: small traces, one compiled rollout per policy, plain replays."""
