/**
 * Ways in which code may try to change packages that are locked. Each is Python whose value lists what came of it: the
 * code or class of an error, or `done` where nothing was refused.
 */

import type { Capabilities } from '../../src/protocol/enums.ts';

export interface Attempt {
  readonly name: string;
  readonly code: string;
  /** What the executor must be able to do for it. */
  readonly needs?: keyof Capabilities;
  /** What each word must be; refused by the host where nothing is said. */
  readonly expects?: RegExp;
}

/** `word(work)` tells what came of it; FOLDER is the package set, as the code sees it. */
export const PRELUDE = `
import gc, marshal, os, pathlib, shutil, socket, struct, sys
import tiny_a
from cella_kernel.namespaces import host
FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(tiny_a.__file__)))
def word(work):
    try:
        work()
    except BaseException as error:
        return getattr(error, "code", None) or type(error).__name__
    return "done"
def both(thing):
    return [word(lambda: thing.add("evil")), word(lambda: thing.remove("tiny-a"))]
`;
