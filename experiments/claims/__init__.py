"""The claims ledger: one judge per claim."""
