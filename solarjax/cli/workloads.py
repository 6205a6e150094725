"""`solarjax workloads`: what policies can be compared on."""

from __future__ import annotations

from typing import Annotated

import typer


def workloads(
    name: Annotated[str | None, typer.Argument(help="Show the parameters of this workload or protocol.")] = None,
) -> None:
    """List the generated workloads and the protocols for dialogues, or the parameters of one.

    \b
    Examples:
      solarjax workloads
      solarjax workloads cycling
      solarjax workloads P2
    """
    from solarjax.cli.listing import entries, parameters
    from solarjax.core.params import check_name
    from solarjax.traces.protocols import PROTOCOLS
    from solarjax.workloads.registry import WORKLOADS
    from solarjax.workloads.types import WorkloadError

    if name is None:
        entries(
            ("workload", "what it is", "source"),
            [(key, spec.summary, spec.paper) for key, spec in WORKLOADS.items()],
        )
        print()
        entries(("protocol", "for dialogues (--locomo, --friendsqa, --dialsim)"),
                [(key, spec.summary) for key, spec in PROTOCOLS.items()])  # fmt: skip
        return
    if name in PROTOCOLS:
        print(f"{name}: {PROTOCOLS[name].summary}.")
        parameters(PROTOCOLS[name].parameters)
        return
    check_name("workload", name, [*WORKLOADS, *PROTOCOLS], WorkloadError)
    spec = WORKLOADS[name]
    print(f"{name}: {spec.summary}. Source: {spec.paper}.")
    parameters(spec.params)
