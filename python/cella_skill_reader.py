"""Reads skills without running them: parses and compiles each source, and reports its contents.

The host starts this with `-c` and exchanges JSON objects with it, one per line. It gives up root, files and memory before it
reads anything, because a source may be written to break the parser: then only this process ends. Pyodide runs this text
under another name than `__main__`, and calls `reply`.
"""

import ast
import inspect  # noqa: F401  `get_docstring` imports it when it is first used
import json
import os
import re
import sys
import unicodedata  # noqa: F401  the compiler imports it for the first name that is not ASCII
import warnings

NOBODY = 65534
MOST_MEMORY = 512 * 1024 * 1024
MOST_OPEN_FILES = 16
MOST_CHARACTERS = 300
MOST_OF_DESCRIPTION = 4000
# One more than the host accepts, so that it sees that there are too many.
MOST_PARAMETERS = 256


def confine():
    """Gives up privileges, files and memory that are not needed here."""
    import resource

    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_OPEN_FILES, MOST_OPEN_FILES))
    os.chdir("/")
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


class Refused(Exception):
    def __init__(self, reason, line):
        super().__init__(reason)
        self.reason = reason
        self.line = line


def read(source):
    """The description and parameters of a skill, and the place of its docstring. Raises Refused."""
    tree = parse(source)
    run = find_run(tree)
    module_text = ast.get_docstring(tree)
    own_text = ast.get_docstring(run)
    description = module_text or (own_text or "").split("\n\n")[0]
    return {
        "description": cut(description.strip(), MOST_OF_DESCRIPTION),
        "parameters": parameters_of(run.args),
        "docstring": docstring_place(tree, source),
    }


def parse(source):
    try:
        tree = ast.parse(source, "<skill>")
        compile(tree, "<skill>", "exec", dont_inherit=True)
        return tree
    except SyntaxError as error:
        raise Refused(error.msg, error.lineno)
    except (RecursionError, MemoryError):
        raise Refused("it is nested too deeply, or too large to be compiled", None)
    except ValueError as error:
        raise Refused(str(error), None)


def find_run(tree):
    plain = None
    found = None
    for node in tree.body:
        if isinstance(node, ast.AsyncFunctionDef) and node.name == "run":
            found = node
        elif isinstance(node, ast.FunctionDef) and node.name == "run":
            plain = node
    if found is not None:
        return found
    if plain is not None:
        raise Refused("`run` must be a coroutine: write `async def run(...)`", plain.lineno)
    raise Refused("it has no `async def run(...)` at its top level", None)


def parameters_of(args):
    plain = args.posonlyargs + args.args
    defaults = [None] * (len(plain) - len(args.defaults)) + args.defaults
    found = []
    for index, (argument, default) in enumerate(zip(plain, defaults)):
        kind = "positional_only" if index < len(args.posonlyargs) else "positional_or_keyword"
        found.append((argument, kind, default))
    if args.vararg:
        found.append((args.vararg, "var_positional", None))
    for argument, default in zip(args.kwonlyargs, args.kw_defaults):
        found.append((argument, "keyword_only", default))
    if args.kwarg:
        found.append((args.kwarg, "var_keyword", None))
    return [parameter(*facts) for facts in found[:MOST_PARAMETERS]]


def parameter(argument, kind, default):
    facts = {"name": cut(argument.arg, MOST_CHARACTERS), "kind": kind}
    if argument.annotation is not None:
        facts["annotation"] = as_text(argument.annotation)
    if default is not None:
        facts["default"] = as_text(default)
    facts["required"] = default is None and not kind.startswith("var_")
    return facts


def as_text(node):
    return cut(ast.unparse(node), MOST_CHARACTERS)


def cut(text, most):
    return text if len(text) <= most else text[:most] + "\u2026"


def docstring_place(tree, source):
    """The place of the module's docstring in UTF-16 units, as JavaScript counts."""
    if ast.get_docstring(tree, clean=False) is None:
        return None
    node = tree.body[0].value
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", source)
    return {
        "start": place(lines, node.lineno, node.col_offset),
        "end": place(lines, node.end_lineno, node.end_col_offset),
    }


def place(lines, line, column):
    before = "".join(lines[: line - 1]) + lines[line - 1].encode()[:column].decode()
    return len(before.encode("utf-16-le")) // 2


def answer(source):
    try:
        return {"read": read(source)}
    except Refused as refused:
        return {"refused": {"reason": refused.reason, "line": refused.line}}
    except (RecursionError, MemoryError):
        return {"refused": {"reason": "it is nested too deeply, or too large", "line": None}}


def reply(source):
    """The answer to the host, as one line."""
    return json.dumps(answer(source))


def main():
    import signal

    confine()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        request = json.loads(line)
        # Ends this process if the compiler hangs, even if the host has ended.
        signal.alarm(request["seconds"])
        line = reply(request["source"])
        signal.alarm(0)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
