"""Areas of shapes."""


# LITERALINCLUDE START: shapes-rectangle
def rectangle(width: int, height: int) -> int:
    """The area of a rectangle."""
    if width < 0 or height < 0:
        raise ValueError("a side is negative")
    return width * height


# LITERALINCLUDE END: shapes-rectangle
