"""Adds numbers."""


async def run(a: int, b: int = 2) -> int:
    return a + b
