"""`solarjax policies`: what can be compared."""

from __future__ import annotations

from typing import Annotated

import typer


def policies(
    name: Annotated[str | None, typer.Argument(help="Show the parameters of this policy.")] = None,
) -> None:
    """List the policies, or the parameters of one.

    \b
    Examples:
      solarjax policies
      solarjax policies solar
    """
    from solarjax.cli.listing import entries, parameters
    from solarjax.core.params import check_name
    from solarjax.policies.registry import PAPER_EIGHT, POLICIES, PolicyError

    if name is None:
        entries(
            ("policy", "kind", "what it does", "source"),
            [
                (key, "online" if spec.online else "offline, heuristic", spec.summary, spec.paper)
                for key, spec in POLICIES.items()
            ],
        )
        print(f"\n--policies all is {','.join(PAPER_EIGHT)}; every is all of them.")
        return
    check_name("policy", name, POLICIES, PolicyError)
    spec = POLICIES[name]
    print(f"{name}: {spec.summary}. Source: {spec.paper}.")
    parameters(spec.params)
