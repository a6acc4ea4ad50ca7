/** Lines that a person types: editing, history, completion, hidden passwords, and output above the prompt. */

import { clearScreenDown, createInterface, cursorTo, type Interface, moveCursor } from 'node:readline';
import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { onAbort } from '../../lib/abort.ts';
import { type InputLine, type LineRequest, type LineSource, PipedLines } from './line-input.ts';
import type { CliTerminal, TerminalOutput } from './terminal.ts';

interface PendingRead {
  readonly request: LineRequest;
  readonly ended: Promise<unknown>;
  finish(line: InputLine): void;
}

/** A job that still runs after this time was not stopped: it has no shell that could continue it. */
const STOP_MS = 100;

export class LineEditor implements LineSource {
  readonly #terminal: CliTerminal;
  readonly #onInterrupt: () => void;
  readonly #output: MutableOutput;
  #interface: Interface | undefined;
  #history: string[] = [];
  /** Lines typed or pasted before they were requested. */
  readonly #ahead: InputLine[] = [];
  #reading: PendingRead | undefined;
  readonly #job: JobControl;
  #stopping = false;

  /** `onInterrupt` is called on Ctrl-C while no line is being read. */
  constructor(terminal: CliTerminal, onInterrupt: () => void, job: JobControl = processJobControl) {
    this.#terminal = terminal;
    this.#onInterrupt = onInterrupt;
    this.#job = job;
    this.#output = new MutableOutput(terminal.screen);
  }

  async read(request: LineRequest): Promise<InputLine> {
    // A tool may ask for approval while the code waits in input().
    while (this.#reading) await this.#reading.ended;
    if (request.signal?.aborted) return { kind: 'aborted' };
    this.#terminal.clearStatus();
    this.#output.hidden = false;
    const prompt = this.#placePrompt(request.prompt);
    const ahead = request.ignoreTypeahead ? undefined : this.#ahead.shift();
    if (ahead) {
      const shown = ahead.kind === 'line' && !request.password ? ahead.text : '';
      this.#output.write(`${prompt}${shown}\n`);
      this.#leave();
      return ahead;
    }
    const editor = this.#interface ?? this.#open();
    editor.setPrompt(prompt);
    if (request.ignoreTypeahead) {
      this.#output.hidden = true;
      this.#forgetTyped(editor);
    }
    this.#draw(editor, request);
    return await this.#wait(editor, request);
  }

  /** Writes above the line that is being typed. `write` must begin at once, because keys may arrive before it ends. */
  async printAbove(write: () => Promise<void>): Promise<void> {
    const editor = this.#interface;
    if (!editor || this.#output.hidden) return await write();
    const { rows } = editor.getCursorPos();
    moveCursor(this.#output, 0, -rows);
    cursorTo(this.#output, 0);
    clearScreenDown(this.#output);
    this.#terminal.lineEnded();
    const written = write();
    // When it redraws, the editor moves up by as many rows as its cursor was down.
    const end = this.#terminal.unfinishedLine === '' ? '' : '\n';
    this.#output.write(end + '\n'.repeat(rows));
    this.#terminal.lineEnded();
    if (this.#reading) editor.prompt(true);
    await written;
  }

  close(): void {
    this.#interface?.close();
    this.#output.destroy();
  }

  #draw(editor: Interface, { password = false }: LineRequest): void {
    this.#output.hidden = false;
    if (password) this.#output.write(editor.getPrompt());
    else editor.prompt(true);
    this.#output.hidden = password;
  }

  #wait(editor: Interface, request: LineRequest): Promise<InputLine> {
    const { promise, resolve } = Promise.withResolvers<InputLine>();
    const aborting = onAbort(request.signal, () => this.#reading?.finish({ kind: 'aborted' }));
    this.#reading = {
      request,
      ended: promise,
      finish: (line) => {
        this.#reading = undefined;
        aborting[Symbol.dispose]();
        const dropped = line.kind === 'interrupt' || line.kind === 'aborted';
        if (dropped) editor.write(null, { ctrl: true, name: 'e' });
        const entered = line.kind === 'line' && !this.#output.hidden;
        this.#output.hidden = false;
        if (!entered) this.#output.write(line.kind === 'interrupt' ? '^C\n' : '\n');
        this.#leave();
        if (dropped) this.#forgetTyped(editor);
        resolve(line);
      },
    };
    return promise;
  }

  /** Moves the cursor to a new line and hides further typing. */
  #leave(): void {
    this.#terminal.lineEnded();
    this.#output.hidden = true;
  }

  #forgetTyped(editor: Interface): void {
    editor.write(null, { ctrl: true, name: 'e' });
    editor.write(null, { ctrl: true, name: 'u' });
  }

  /** A prompt continues the line that output left unfinished. The editor draws both, because it redraws whole lines. */
  #placePrompt(prompt: string): string {
    const end = prompt.lastIndexOf('\n') + 1;
    if (end > 0) {
      this.#output.write(prompt.slice(0, end));
      return prompt.slice(end);
    }
    const line = this.#terminal.unfinishedLine;
    // Many characters beyond ASCII are two columns wide; none is wider.
    const width = stripVTControlCharacters(line + prompt).replace(/[^\0-\x7f]/gu, '..').length;
    if (width < this.#output.columns) {
      cursorTo(this.#output, 0);
      return line + prompt;
    }
    if (line !== '') this.#output.write('\n');
    return prompt;
  }

  /** Does what Ctrl-Z does in a terminal that handles it itself. */
  #stop(): void {
    this.#terminal.stdin.setRawMode?.(false);
    this.#stopping = true;
    this.#job.stop();
    // The signal that continues a stopped job arrives before this runs.
    setTimeout(() => setImmediate(() => this.#stopping && this.#continue()), STOP_MS);
  }

  /** Another process may have changed the mode of the terminal and moved the cursor. */
  readonly #continue = (): void => {
    this.#stopping = false;
    const editor = this.#interface;
    if (!editor) return;
    this.#terminal.stdin.setRawMode?.(false);
    this.#terminal.stdin.setRawMode?.(true);
    if (!this.#reading) return;
    this.#output.write('\n'.repeat(editor.getCursorPos().rows));
    this.#draw(editor, this.#reading.request);
  };

  /** After a paste the editor does not know how many rows it has drawn. Drawing them again, unseen, updates its count. */
  readonly #countRows = (): void => {
    if (!this.#reading || this.#output.hidden) return;
    this.#output.hidden = true;
    this.#interface?.prompt(true);
    this.#output.hidden = false;
  };

  #open(): Interface {
    const editor = createInterface({
      input: this.#terminal.stdin,
      output: this.#output,
      terminal: true,
      history: this.#history,
      historySize: 1000,
      completer: (line: string, done: (error: null, result: [string[], string]) => void) => {
        const nothing = () => done(null, [[], line]);
        const complete = this.#reading?.request.complete;
        if (!complete) return nothing();
        complete(line).then(([matches, replaced]) => done(null, [[...matches], replaced]), nothing);
      },
    });
    const finish = (line: InputLine) => (this.#reading ? this.#reading.finish(line) : this.#ahead.push(line));
    editor.on('line', (text) => finish({ kind: 'line', text }));
    editor.on('SIGINT', () => {
      this.#ahead.length = 0;
      if (this.#reading) return this.#reading.finish({ kind: 'interrupt' });
      this.#forgetTyped(editor);
      this.#onInterrupt();
    });
    editor.on('SIGTSTP', () => this.#stop());
    // The mode of a closed terminal cannot be restored; the end of its input is reported separately.
    editor.on('error', () => {});
    // Runs after the editor's own listener, which has handled the keys of this chunk.
    this.#terminal.stdin.on('data', this.#countRows);
    this.#job.on('SIGCONT', this.#continue);
    editor.on('close', () => {
      this.#interface = undefined;
      this.#terminal.stdin.off('data', this.#countRows);
      this.#job.off('SIGCONT', this.#continue);
      finish({ kind: 'end' });
    });
    editor.on('history', (history) => {
      // Answers to input() are not code and may be secret, so they stay out of the history.
      if (this.#reading && !this.#reading.request.complete) history.splice(0, history.length, ...this.#history);
      this.#history = [...history];
    });
    this.#interface = editor;
    return editor;
  }
}

class MutableOutput extends Writable {
  readonly isTTY = true;
  hidden = false;
  readonly #screen: TerminalOutput;
  readonly #resized = () => this.emit('resize');

  constructor(screen: TerminalOutput) {
    super();
    this.#screen = screen;
    screen.on('resize', this.#resized);
  }

  get columns(): number {
    return this.#screen.columns ?? 80;
  }

  /** Passes on writes at once, to keep the order with other writers to the screen. */
  override write(text: unknown): boolean {
    return this.hidden || this.#screen.write(text);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#screen.off('resize', this.#resized);
    done(error);
  }
}

/** The processes that a shell stops and continues together: this process and those started with it. */
interface JobControl {
  on(signal: 'SIGCONT', listener: () => void): unknown;
  off(signal: 'SIGCONT', listener: () => void): unknown;
  stop(): void;
}

const processJobControl: JobControl = {
  on: (signal, listener) => process.on(signal, listener),
  off: (signal, listener) => process.off(signal, listener),
  stop: () => process.kill(0, 'SIGTSTP'),
};

/** `onInterrupt` is called on Ctrl-C while no line is being read. */
export function openLineInput(terminal: CliTerminal, onInterrupt: () => void): LineEditor | PipedLines {
  if (terminal.interactive) return new LineEditor(terminal, onInterrupt);
  return new PipedLines(terminal.stdin, (prompt) => terminal.err(prompt));
}
