"""Circles of references, and an order of all the rest: Tarjan's algorithm, without recursion."""

from __future__ import annotations

from typing import Dict, Iterator, List, Tuple


def circles(graph: Dict[str, List[str]]) -> Iterator[List[str]]:
    """Groups of nodes that reach each other, each after all that it refers to. Most groups are a single node."""
    search = _Search(graph)
    for node in graph:
        if node not in search.number:
            yield from search.visit(node)


class _Search:
    def __init__(self, graph: Dict[str, List[str]]) -> None:
        self._graph = graph
        # In the order in which nodes are reached; the lowest that each leads back to; those whose group is not known.
        self.number: Dict[str, int] = {}
        self._lowest: Dict[str, int] = {}
        self._open: List[str] = []
        self._calls: List[Tuple[str, Iterator[str]]] = []

    def visit(self, start: str) -> Iterator[List[str]]:
        self._enter(start)
        while self._calls:
            node, others = self._calls[-1]
            for other in others:
                if other not in self.number:
                    self._enter(other)
                    break
                self._leads_to(node, self.number[other])
            else:
                self._calls.pop()
                if self._lowest[node] == self.number[node]:
                    yield self._take(node)
                elif self._calls:
                    self._leads_to(self._calls[-1][0], self._lowest[node])

    def _enter(self, node: str) -> None:
        self.number[node] = self._lowest[node] = len(self.number)
        self._open.append(node)
        self._calls.append((node, iter(self._graph[node])))

    def _leads_to(self, node: str, number: int) -> None:
        self._lowest[node] = min(self._lowest[node], number)

    def _take(self, node: str) -> List[str]:
        found: List[str] = []
        while not found or found[-1] != node:
            found.append(self._open.pop())
            # No way back leads through what is done.
            self.number[found[-1]] = len(self._graph)
        return found[::-1]
