/** What a server in the background tells the command that started it: one line, that it is ready or why it is not. */

import { closeSync, writeSync } from 'node:fs';
import { z } from 'zod';
import { CellaError, type ErrorCode, errorCodes } from '../../protocol/errors.ts';
import { UsageError } from '../command-errors.ts';
import type { StartedServer } from '../context.ts';

const isCode = (code: string): code is ErrorCode => Object.hasOwn(errorCodes, code);

const Line = z.union([
  z.object({
    ready: z.object({ url: z.string(), dataDir: z.string(), adminTokenPath: z.string(), loginUrl: z.string() }),
  }),
  z.object({ failed: z.object({ code: z.string(), message: z.string(), advice: z.string().optional() }) }),
]);

type Told = { readonly ready: StartedServer } | { readonly failed: unknown };

/** Once: what is told later, such as a failure after it was ready, is told to nobody here. */
export function tellReadiness(fd: number, told: Told): void {
  const line = 'ready' in told ? told : { failed: failureOf(told.failed) };
  try {
    writeSync(fd, `${JSON.stringify(line)}\n`);
    closeSync(fd);
  } catch {
    // Whoever waited for it has gone, or was told before.
  }
}

/** Gives where the server is, or fails as it did. Undefined where the text is no such line. */
export function readReadiness(text: string): StartedServer | undefined {
  const [first = ''] = text.split('\n');
  if (first === '') return undefined;
  const told = Line.parse(JSON.parse(first));
  if ('ready' in told) return told.ready;
  const { code, message, advice } = told.failed;
  if (code === USAGE) throw new UsageError(message, 'Run `cella serve --help` to see how it is used.');
  if (isCode(code)) throw new CellaError(code, message, advice === undefined ? {} : { advice });
  throw new Error(message);
}

const USAGE = 'USAGE';

function failureOf(error: unknown): { code: string; message: string; advice?: string } {
  if (error instanceof CellaError) return { code: error.code, message: error.message, advice: error.advice };
  const message = error instanceof Error ? error.message : String(error);
  return { code: error instanceof UsageError ? USAGE : 'UNEXPECTED', message };
}
