"""How word lists are written down: as blank-parted text, so that a list reads as a list."""


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def classes(text: str) -> dict[str, str]:
    """Classes parted by `;` or line ends: each word of a class to the first one, the form that is compared."""
    found: dict[str, str] = {}
    for line in text.replace(";", "\n").splitlines():
        members = line.split()
        found |= dict.fromkeys(members, members[0] if members else "")
    return found


def poles(text: str) -> dict[str, tuple[str, int]]:
    """Lines of `axis: affirming words / denying words`: each word to its axis and sign."""
    found: dict[str, tuple[str, int]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        axis, _, both = line.partition(":")
        for sign, side in zip((1, -1), both.split("/"), strict=True):
            found |= dict.fromkeys(side.split(), (axis.strip(), sign))
    return found


def readings(text: str) -> dict[str, str]:
    """Lines of `expression = what is read in its place`, which may be nothing."""
    pairs = (line.partition("=") for line in text.splitlines() if line.strip())
    return {written.strip(): read.strip() for written, _, read in pairs}
