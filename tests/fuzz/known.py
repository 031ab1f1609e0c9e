"""Differences that are known and not mended: (what the text of a finding holds, why). Fuzzing counts them and reports them no more.
Each is a defect or a documented limit; the fewer the better."""

KNOWN = [
]


def known(text):
    """The reason, or None. All parts of a row must be there."""
    return next((reason for parts, reason in KNOWN if all(part in text for part in parts)), None)
