/** The runner's short commands, beside the one that serves: JSON lines in, JSON lines out. */

import type { Readable } from 'node:stream';
import type { z } from 'zod';
import { ErrorLine } from '../../protocol/agent/runner.ts';
import { CellaError, type ErrorCode, errorCodes } from '../../protocol/errors.ts';
import type { Place } from './contract.ts';

/** Of all that one command may say. */
const MOST_BYTES = 256 * 1024 * 1024;

/** The lines that it said. `WORKER_FAILED`, or what it said itself, where it failed. */
export async function runCommand<S extends z.ZodType>(
  { environment, runner, cwd }: Place,
  { command, input, line, signal }: { command: string; input: string; line: S; signal?: AbortSignal },
): Promise<z.output<S>[]> {
  const execution = await environment.exec([...runner, command], { stdin: input, cwd, ...(signal ? { signal } : {}) });
  const [out, words, exit] = await Promise.all([
    gather(execution.stdout, MOST_BYTES, () => execution.kill()),
    gather(execution.stderr, 64 * 1024),
    execution.exited,
  ]);
  const lines = out.split('\n').filter((text) => text !== '');
  if (exit.code !== 0) throw failureOf(command, lines.at(-1), words);
  return lines.map((text) => {
    const parsed = line.safeParse(fromJson(text));
    if (parsed.success) return parsed.data;
    throw new CellaError('RUNNER_PROTOCOL', `${command} of the runner said something that is not its to say.`);
  });
}

async function gather(stream: Readable, most: number, tooMuch: () => void = () => {}): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    const part = Buffer.from(chunk);
    bytes += part.length;
    if (bytes <= most) parts.push(part);
    else tooMuch();
  }
  return Buffer.concat(parts).toString('utf8');
}

function failureOf(command: string, last: string | undefined, words: string): CellaError {
  const told = ErrorLine.safeParse(fromJson(last ?? ''));
  if (told.success) {
    const { code, message, advice } = told.data.error;
    return new CellaError(isCode(code) ? code : 'WORKER_FAILED', message, { advice });
  }
  const said = words.trim().slice(-500);
  return new CellaError('WORKER_FAILED', `${command} of the runner failed${said === '' ? '' : `: ${said}`}.`);
}

function fromJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // it fits no schema
  }
}

function isCode(code: string): code is ErrorCode {
  return Object.hasOwn(errorCodes, code);
}
