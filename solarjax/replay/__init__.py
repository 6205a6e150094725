"""Traces through a live language model: client, server, prompts, scoring and the on-policy loop (spec section 5).

Nothing is imported here: the client and the server need neither jax nor the engine.
"""
