"""Values on the command line: lists, pairs, sizes. Pure Python, so it costs nothing to import."""

from __future__ import annotations

from collections.abc import Sequence

from solarjax.cli.errors import UserError

_UNITS = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def whole_numbers(option: str, text: str, low: int) -> tuple[int, ...]:
    """`'10,20'` -> `(10, 20)`; each at least `low`, none twice.

    Raises:
      UserError: naming the option and the value.
    """
    values = []
    for part in _parts(option, text):
        try:
            value = int(part)
        except ValueError:
            raise UserError(f"{option} {part!r} is not a whole number") from None
        if value < low:
            raise UserError(f"{option} {value} is out of range; allowed are whole numbers from {low}")
        values.append(value)
    if len(set(values)) < len(values):
        raise UserError(f"{option} {text}: a value is named twice")
    return tuple(values)


def numbers(option: str, text: str, low: float) -> tuple[float, ...]:
    """`'0.5,1'` -> `(0.5, 1.0)`; each finite and at least `low`, none twice.

    Raises:
      UserError: naming the option and the value.
    """
    values = []
    for part in _parts(option, text):
        try:
            value = float(part)
        except ValueError:
            raise UserError(f"{option} {part!r} is not a number") from None
        if not low <= value < float("inf"):
            raise UserError(f"{option} {part} is out of range; allowed are numbers from {low:g}")
        values.append(value)
    if len(set(values)) < len(values):
        raise UserError(f"{option} {text}: a value is named twice")
    return tuple(values)


def seed_list(text: str) -> tuple[int, ...]:
    """`'1000'` -> 0 .. 999 (a number of seeds); `'42,1337'` or `'42,'` -> exactly these.

    Raises:
      UserError: naming the value.
    """
    if "," in text:
        return whole_numbers("--seeds", text.strip().removesuffix(","), 0)
    (count,) = whole_numbers("--seeds", text, 1)
    return tuple(range(count))


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """`['mean=100']` -> `{'mean': '100'}`.

    Raises:
      UserError: for anything but name=value, or a name given twice.
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UserError(f"{option} {text!r} is not NAME=VALUE")
        if name in found:
            raise UserError(f"{option} {name} is given twice ({found[name]} and {value})")
        found[name] = value
    return found


def size_in_bytes(option: str, text: str | None) -> int | None:
    """`'2GB'`, `'512MiB'` or a number of bytes; None stays None.

    Raises:
      UserError: naming the value and the units there are.
    """
    if text is None:
        return None
    digits = text.strip().rstrip("BbIiKkMmGg")
    unit = text.strip()[len(digits) :].upper()
    try:
        value = int(float(digits) * _UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise UserError(f"{option} {text!r} is not a size such as 500MB or 2GiB") from None
    if value < 1:
        raise UserError(f"{option} {text} is out of range; allowed are sizes from 1 byte")
    return value


def _parts(option: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UserError(f"{option} {text!r} is not a list of values separated by commas")
    return parts
