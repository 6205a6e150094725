"""Where a request should run: what each engine node holds, how fast it is, how busy it is, and what follows from that.

Residency is a hint for routing. Nothing about correctness depends on it: an engine reuses a KV block only for the same
tokens and the same salt, whatever the plane believes.
"""
