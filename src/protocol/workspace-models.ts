/** Files and terminals of a session's workspace, for local and remote sessions. */

import { z } from 'zod';
import { boundedList } from './parse.ts';
import type { ProcessExit } from './process.ts';

const kind = z.enum(['file', 'folder', 'link', 'other']);

export const FileInfo = z
  .object({ name: z.string(), kind, size: z.int(), modifiedAt: z.number() })
  .meta({ id: 'FileInfo' });

export type FileInfo = z.infer<typeof FileInfo>;

/** The events of a watch; `watching` comes first. `overflow`: events are missing, so list the folder again. */
export const FileChange = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('watching'), folders: z.int() }),
    z.object({ type: z.literal('created'), path: z.string(), kind }),
    z.object({ type: z.literal('changed'), path: z.string(), kind }),
    z.object({ type: z.literal('deleted'), path: z.string() }),
    z.object({
      type: z.literal('overflow'),
      reason: z
        .enum(['events', 'folders'])
        .meta({ description: 'Some changes were not reported, or there are too many folders to watch.' }),
    }),
  ])
  .meta({ id: 'FileChange' });

export type FileChange = z.infer<typeof FileChange>;

/** The most columns or rows. */
const side = z.int().min(1).max(1000);

export const TerminalSize = z.strictObject({ cols: side, rows: side });
export type TerminalSize = z.infer<typeof TerminalSize>;

const word = z
  .string()
  .max(4096)
  .refine((text) => !text.includes('\0'), 'must not contain a null byte');

/** The program and its arguments. Default: the shell. */
export const TerminalArgv = boundedList(z.array(word).min(1).max(64), 64);

export const TerminalOptions = z.strictObject({
  cols: side.default(80),
  rows: side.default(24),
  argv: TerminalArgv.optional(),
});
export type TerminalOptions = Omit<z.input<typeof TerminalOptions>, 'argv'> & {
  readonly argv?: readonly string[] | undefined;
};

export interface Terminal extends AsyncDisposable {
  /** The terminal's output as it arrives. Can be read once. */
  readonly output: AsyncIterable<Uint8Array>;
  /** Sends input. Resolves when there is room for more. */
  write(data: Uint8Array | string): Promise<void>;
  resize(size: TerminalSize): void;
  /** Rejects if the program could not be started, or if its exit status is unknown. */
  readonly exited: Promise<ProcessExit>;
  /** Closes the terminal, and ends every process that it started. */
  close(): Promise<void>;
}

/** The largest piece of typed input in one message. */
const TYPED_BYTES = 16 * 1024;

export function* typedPieces(data: Uint8Array | string): Generator<Uint8Array<ArrayBuffer>> {
  const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : new Uint8Array(data);
  for (let at = 0; at < bytes.length; at += TYPED_BYTES) yield bytes.subarray(at, at + TYPED_BYTES);
}
