"""What callers give, checked: errors have Python's words and the caller's names."""

import os
from collections.abc import Iterable, Mapping
from numbers import Real
from operator import index
from typing import Any

from ._engine import Error, PolicySet

StrPath = str | os.PathLike[str]
Policy = str | PolicySet
Names = str | Iterable[str]
"""Names: one, several with commas between, as on the command line, or any series of texts."""

POLICIES = "a policy set such as 'menu + psd', or a list of them"

MOST = 2**63 - 1
"""The largest whole number of a study."""


class ArgumentError(Error, ValueError):
    """A value that is out of range, or arguments that contradict each other."""


ArgumentError.__module__ = "wakepath"


def whole(what: str, given: object, low: int, high: int) -> int:
    """Take a whole number of Python or numpy."""
    try:
        if isinstance(given, bool):
            raise TypeError
        found = index(given)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what}: expected a whole number, and there is {shown(given)}") from None
    if not low <= found <= high:
        raise ArgumentError(f"{what} is {found}, and may be {low} to {high}")
    return found


def number(what: str, given: object, low: float, high: float) -> float:
    """Take a number of Python or numpy."""
    if isinstance(given, bool) or not isinstance(given, Real):
        raise TypeError(f"{what}: expected a number, and there is {shown(given)}")
    found = float(given)
    if not low <= found <= high:  # NaN is not, either
        raise ArgumentError(f"{what} is {found:.15g}, and may be {low:.15g} to {high:.15g}")
    return found


def text(what: str, given: object) -> str:
    """Take a text."""
    if not isinstance(given, str):
        raise TypeError(f"{what}: expected a text, and there is {shown(given)}")
    return str(given)


def text_or_none(what: str, given: object) -> str | None:
    """Take a text, or nothing."""
    return None if given is None else text(what, given)


def flag(what: str, given: object) -> bool:
    """Take `True` or `False`."""
    if not isinstance(given, bool):
        raise TypeError(f"{what}: expected True or False, and there is {shown(given)}")
    return given


def path(what: str, given: object) -> str:
    """Take the path of a file or a folder."""
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"{what}: expected a path, and there is {shown(given)}")
    found = os.fspath(given)
    if not isinstance(found, str):
        raise TypeError(f"{what}: expected a path that is text, and there is {shown(given)}")
    if not found:
        raise ArgumentError(f"{what}: expected a path, and there is an empty text")
    return found


def several(what: str, given: object, single: tuple[type, ...], wanted: str = "one or a list of them") -> list[Any]:
    """Take one thing, or any series of things that keeps their order."""
    if isinstance(given, single):
        return [given]
    if isinstance(given, (set, frozenset)):
        raise TypeError(f"{what}: a set has no order; give a list")
    if isinstance(given, (bytes, bytearray, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"{what}: expected {wanted}, and there is {shown(given)}")
    try:
        items = iter(given)
    except TypeError:  # an array without dimensions
        raise TypeError(f"{what}: expected {wanted}, and there is {shown(given)}") from None
    # Values of Arrow are objects of their own.
    return [one.as_py() if hasattr(one, "as_py") else one for one in items]


def names(what: str, given: object) -> list[str]:
    """Take names; commas in a single text separate them."""
    if isinstance(given, str):
        parts = [part.strip() for part in given.split(",")]
        return [part for part in parts if part]
    return texts(what, given)


def texts(what: str, given: object) -> list[str]:
    """Take one text or several; commas mean nothing."""
    found = several(what, given, (str,))
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{what}: expected texts, and there is {shown(one)}")
    return [str(one) for one in found]


def policy(given: object, what: str = "policy") -> str:
    """Take a policy set."""
    if isinstance(given, (str, PolicySet)):
        return str(given)
    raise TypeError(f"{what}: expected a policy set such as 'menu + psd', and there is {shown(given)}")


def policies(given: object) -> list[str]:
    """Take one policy set or several."""
    return [policy(one) for one in several("policy", given, (str, PolicySet), POLICIES)]


def shown(given: object) -> str:
    """Show a value in a message."""
    said = repr(given)
    if len(said) > 80 or "\n" in said:
        return f"a {type(given).__name__}"
    return said
