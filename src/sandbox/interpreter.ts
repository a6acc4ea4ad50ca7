/** What a package must fit: the Python of the kernels, asked once, outside of any sandbox. */

import { z } from 'zod';
import { runProgram } from '../lib/run-program.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Interpreter } from '../protocol/interpreter.ts';
import { failureOf, parseJson } from './python.ts';

const ANSWER_MS = 30_000;

/** One of the host's own: wheels for it are chosen by itself. */
export interface HostInterpreter extends Interpreter {
  /** The program itself, where the given path is a version manager's. */
  readonly executable: string;
}

/** Tells the same to whoever runs it. */
export const askingArgs = (): string[] => ['-I', '-S', '-X', 'utf8', '-c', PROGRAM];

/** Python that finds `tag`: what is built for one C library does not run with another. */
export const TAG_PROGRAM = `
import os, sys, sysconfig
short = {"cpython": "cp", "pypy": "pp"}.get(sys.implementation.name, sys.implementation.name)
numbers = "%d%d%s" % (sys.version_info[0], sys.version_info[1], getattr(sys, "abiflags", ""))
machine = os.uname().machine
if machine == "x86_64" and sys.maxsize < 2**32:
    machine = "i686"
musl = "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "") + (sysconfig.get_config_var("SOABI") or "")
tag = short + numbers + ("-musl-" if musl else "-") + machine
`;

const PROGRAM = `
import json
${TAG_PROGRAM}
facts = {"tag": tag, "version": list(sys.version_info[:2]), "executable": sys.executable}
print(json.dumps(facts))
`;

const Answer = z.object({
  tag: z.string().regex(/^[a-z]+\d+[a-z]*(-musl)?-[A-Za-z0-9_]+$/),
  version: z.tuple([z.int(), z.int()]),
  executable: z.string().startsWith('/'),
});

export function readAnswer(text: string): HostInterpreter | undefined {
  const answer = Answer.safeParse(parseJson(text)).data;
  return answer && { ...answer, platforms: [] };
}

const known = new Map<string, Promise<HostInterpreter>>();

/** A failure is not remembered, since the reader may mend it. */
export function askInterpreter(python: string): Promise<HostInterpreter> {
  const found = known.get(python);
  if (found) return found;
  const asked = ask(python);
  known.set(python, asked);
  asked.catch(() => known.delete(python));
  return asked;
}

async function ask(python: string): Promise<HostInterpreter> {
  const stdout = await runProgram(python, askingArgs(), ANSWER_MS).catch((cause) => {
    throw notFound(python, failureOf(cause), cause);
  });
  const answer = readAnswer(stdout);
  if (!answer) throw notFound(python, 'it did not answer as a Python does');
  return answer;
}

function notFound(python: string, why: string, cause?: unknown): CellaError {
  return new CellaError('PYTHON_NOT_FOUND', `${python} could not be asked about itself: ${why}.`, { cause });
}
