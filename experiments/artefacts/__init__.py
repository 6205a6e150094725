"""One file per table or figure; each ends in ARTEFACT."""
