"""Cache salts: what keeps one tenant's KV blocks out of another's reach.

An engine reuses a KV block only for a prompt with the same salt. The salt is the tenant's and its purge epoch's
(counted up by erasure), keyed by a secret of the deployment, so that a client that may send prompts to an engine
directly cannot guess one. It does not change with a correction: capsule versions are in the prompt text, so a new
version has new block hashes from that capsule on, while the prefix before it stays reusable (placemem-notes.md,
section 3).
"""

from __future__ import annotations

import hashlib
import hmac
from functools import lru_cache

from solarjax.plane.errors import Invalid

MIN_SECRET = 16


@lru_cache(maxsize=10_000)
def cache_salt(secret: bytes, tenant: str, purge_epoch: int) -> str:
    """64 hex digits: within vLLM's limits for `cache_salt` (at most 128 characters, none of `@ / \\` NUL, not empty).

    The fields are joined with their lengths, so ("org_1", 2345) and ("org_12345", ...) can never meet.

    Raises:
      Invalid: if the secret is shorter than `MIN_SECRET` bytes.
    """
    if len(secret) < MIN_SECRET:
        raise Invalid(f"the salt secret has {len(secret)} bytes; at least {MIN_SECRET} are needed")
    fields = [tenant.encode(), str(purge_epoch).encode()]
    message = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return hmac.new(secret, b"solarjax cache salt 1" + message, hashlib.sha256).hexdigest()
