"""Routes on capsules, their versions, dependencies and artifacts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime

from solarjax.plane.api import parts as p
from solarjax.plane.artifacts import Artifact
from solarjax.plane.capsules import ID_PATTERN, MAX_VERSION, Capsule, Kind, Label, VersionRef
from solarjax.plane.clock import ALWAYS, to_micros
from solarjax.plane.results import Ending, Preview, WriteResult

router = APIRouter(tags=["capsules"], responses=p.ERRORS)
AsOf = Annotated[AwareDatetime | None, Query(description="Instant of validity, default now.")]
AtEpoch = Annotated[p.Epoch | None, Query(description="As the catalogue knew it at this epoch, default now.")]


def _micros(moment: AwareDatetime | None) -> int | None:
    return None if moment is None else to_micros(moment, 0)


@router.post("/capsules", status_code=201)
def create_capsule(body: p.CreateBody, write: p.Write) -> WriteResult:
    """Create a capsule, or write a capsule again all of whose versions have ended."""
    vector = write.plane.embed(body.capsule)
    return write.answer(write.plane.catalogue.create(write.intent(body.reason), body.capsule, vector))


@router.get("/capsules")
def list_capsules(
    caller: p.Caller,
    plane: p.Plane,
    limit: p.Limit = 100,
    cursor: Annotated[str | None, Query(pattern=ID_PATTERN, description="`next` of the page before.")] = None,
    kind: Annotated[Kind | None, Query()] = None,
    entity: Annotated[Label | None, Query()] = None,
    as_of: AsOf = None,
    epoch: AtEpoch = None,
) -> p.Page[Capsule]:
    """The versions in force, in the order of the ids."""
    found = plane.listing.capsules(
        caller.tenant, after=cursor or "", limit=limit + 1, kind=kind, entity=entity, at=_micros(as_of), epoch=epoch
    )
    return p.page(found, limit, lambda capsule: capsule.id)


@router.get("/capsules/{capsule}")
def get_capsule(
    capsule: p.CapsulePath, caller: p.Caller, plane: p.Plane, as_of: AsOf = None, epoch: AtEpoch = None
) -> Capsule:
    """The version in force."""
    return plane.catalogue.get(caller.tenant, capsule, at=_micros(as_of), epoch=epoch)


@router.get("/capsules/{capsule}/versions")
def list_versions(
    capsule: p.CapsulePath, caller: p.Caller, plane: p.Plane, limit: p.Limit = 100, cursor: p.Cursor = None
) -> p.Page[Capsule]:
    """All versions, ended ones included, oldest first."""
    after = min(p.position(cursor), MAX_VERSION)
    found = plane.catalogue.history(caller.tenant, capsule, after=after, limit=limit + 1)
    return p.page(found, limit, lambda version: version.version)


@router.get("/capsules/{capsule}/versions/{version}")
def get_version(capsule: p.CapsulePath, version: p.VersionPath, caller: p.Caller, plane: p.Plane) -> Capsule:
    """One version, whether it holds or not."""
    return plane.catalogue.get(caller.tenant, capsule, version=version)


@router.get("/capsules/{capsule}/versions/{version}/why")
def why_ended(capsule: p.CapsulePath, version: p.VersionPath, caller: p.Caller, plane: p.Plane) -> list[Ending]:
    """Everything that ended a version: event, cause, and the derivation from what was changed."""
    return plane.audit.why(caller.tenant, VersionRef(id=capsule, version=version))


@router.get("/capsules/{capsule}/versions/{version}/impact")
def preview_change(
    capsule: p.CapsulePath,
    version: p.VersionPath,
    caller: p.Caller,
    plane: p.Plane,
    at: Annotated[AwareDatetime | None, Query(description="From when on; default: a correction or deletion.")] = None,
    limit: p.Limit = 100,
) -> Preview:
    """What ending this version would end, and why. Nothing is changed."""
    ref = VersionRef(id=capsule, version=version)
    return plane.catalogue.preview(caller.tenant, ref, at=to_micros(at, ALWAYS), limit=limit)


@router.post("/capsules/{capsule}/correct")
def correct_capsule(capsule: p.CapsulePath, body: p.ChangeBody, write: p.Write) -> WriteResult:
    """The version was wrong: it and all derived from it hold at no time; a new one takes its place."""
    ref = VersionRef(id=capsule, version=body.version)
    vector = write.plane.embed(body.content)
    return write.answer(write.plane.catalogue.correct(write.intent(body.reason), ref, body.content, vector))


@router.post("/capsules/{capsule}/supersede")
def supersede_capsule(capsule: p.CapsulePath, body: p.ChangeBody, write: p.Write) -> WriteResult:
    """The version was right until `content.valid_from` (default now); a new one follows."""
    ref = VersionRef(id=capsule, version=body.version)
    vector = write.plane.embed(body.content)
    return write.answer(write.plane.catalogue.supersede(write.intent(body.reason), ref, body.content, vector))


@router.post("/capsules/{capsule}/expire")
def expire_capsule(capsule: p.CapsulePath, body: p.ExpireBody, write: p.Write) -> WriteResult:
    """The version, and all derived from it, holds no longer from an instant on."""
    ref = VersionRef(id=capsule, version=body.version)
    return write.answer(write.plane.catalogue.expire(write.intent(body.reason), ref, _micros(body.at)))


@router.post("/capsules/{capsule}/restore")
def restore_capsule(capsule: p.CapsulePath, body: p.RestoreBody, write: p.Write) -> WriteResult:
    """Write the content of an ended version again, as a new version."""
    ref = VersionRef(id=capsule, version=body.version)
    return write.answer(write.plane.catalogue.restore(write.intent(body.reason), ref))


@router.delete("/capsules/{capsule}")
def delete_capsule(
    capsule: p.CapsulePath,
    write: p.Write,
    version: Annotated[int | None, Query(ge=1, le=MAX_VERSION, description="Newest version expected.")] = None,
    erase: Annotated[bool, Query(description="Wipe the content too, also of all that was ever derived.")] = False,
    reason: Annotated[p.Reason, Query()] = "",
) -> WriteResult:
    """End all versions for good, with all derived from them."""
    done = write.plane.catalogue.delete(write.intent(reason), capsule, expected=version, erase=erase)
    return write.answer(done)


@router.get("/capsules/{capsule}/artifacts")
def list_artifacts(
    capsule: p.CapsulePath, caller: p.Caller, plane: p.Plane, limit: p.Limit = 100, cursor: p.Cursor = None
) -> p.Page[Artifact]:
    """Artifacts made from any version of a capsule."""
    found = plane.artifacts.of_capsule(caller.tenant, capsule, after=p.position(cursor), limit=limit + 1)
    return p.page(found, limit, lambda artifact: artifact.id)


@router.post("/artifacts", status_code=201)
def attach_artifact(body: p.AttachBody, write: p.Write) -> WriteResult:
    """Record an artifact computed from versions that hold."""
    return write.answer(write.plane.catalogue.attach(write.intent(body.reason), body.artifact))


@router.post("/dependencies/around")
def list_neighbours(body: p.EdgesBody, caller: p.Caller, plane: p.Plane) -> p.Edges:
    """What versions were made from and what was made from them, one step each way. Nothing is changed."""
    edges, more = plane.audit.edges(caller.tenant, body.versions)
    return p.Edges(edges=edges, more=more)


@router.post("/dependencies", status_code=201)
def link_versions(body: p.LinkBody, write: p.Write) -> WriteResult:
    """Record later that one version was made from another."""
    return write.answer(write.plane.catalogue.link(write.intent(body.reason), body.source, body.derived))
