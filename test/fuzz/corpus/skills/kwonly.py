'''Text
of lines'''
class A:
    x = [i for i in range(3)]

async def run(*, limit=10, mode='a' if True else "b", where=lambda x: x):
    async with open(limit) as f:
        return f'{mode!r:>{limit}}'
