/** Where lines come from: a person at a terminal, or a pipe. */

import { LineEditor } from './line-editor.ts';
import { PipedLines } from './piped-lines.ts';
import type { Terminal } from './terminal.ts';

/** `onInterrupt` is told of a Ctrl-C that comes while no line is read. */
export function openLines(terminal: Terminal, onInterrupt: () => void): LineEditor | PipedLines {
  if (terminal.interactive) return new LineEditor(terminal, onInterrupt);
  return new PipedLines(terminal.stdin, (prompt) => terminal.err(prompt));
}
