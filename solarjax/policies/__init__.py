"""Memory policies: admission rules, victim rules, their compositions, and the registry."""
