/** A secret for a command: typed unseen at a terminal, or read from stdin. Never an argument, which others can see. */

import { UsageError } from '../command-errors.ts';
import type { Terminal } from '../terminal/terminal.ts';

const MOST_BYTES = 64 * 1024;

/** Without the line end behind it. Undefined where whoever was asked has thought better of it. */
export async function readSecret(terminal: Terminal, prompt: string): Promise<string | undefined> {
  return terminal.interactive ? await typed(terminal, prompt) : await piped(terminal);
}

async function typed(terminal: Terminal, prompt: string): Promise<string | undefined> {
  const { openLineInput: openLines } = await import('../terminal/line-editor.ts');
  const lines = openLines(terminal, () => {});
  try {
    const line = await lines.read({ prompt, password: true, ignoreTypeahead: true });
    return line.kind === 'line' ? line.text.trim() : undefined;
  } finally {
    lines.close();
  }
}

async function piped({ stdin }: Terminal): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > MOST_BYTES) throw new UsageError('What is on stdin is too large for a key.', 'Give the key alone.');
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString('utf8').trim();
}
