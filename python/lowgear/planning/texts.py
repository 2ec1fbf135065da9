"""Numbers as messages and results show them."""


def percent(value: float) -> str:
    """With its sign: `-13.81 %`, and `+0.00 %` for what rounds to zero."""
    text = f"{value:+.2f} %"
    return "+0.00 %" if text == "-0.00 %" else text


def counted(count: int, one: str, many: str) -> str:
    """A number with its noun: `1 plan`, `3 plans`."""
    return f"{count} {one if count == 1 else many}"
