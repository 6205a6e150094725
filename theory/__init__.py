"""Every guarantee the papers state, checked numerically; `python -m theory list` shows them."""
