"""The sidecar: an OpenAI-compatible server in front of engine nodes that puts capsules into prompts, and keeps what was
corrected out of them."""
