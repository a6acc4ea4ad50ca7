#!/usr/bin/env python3
# -*- coding: utf-8 -*-
import json


async def run(first, /, *rest: str, key="é", **more: "dict[str, int]"):
    """Grüße 😀.

    More of it.
    """
    return json.dumps([first, rest, key, more])
