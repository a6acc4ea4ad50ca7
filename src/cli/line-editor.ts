/**
 * Lines that a person types. Between two reads the terminal is as the shell left it: Ctrl-C is a signal again, and
 * what is typed meanwhile waits for the next read.
 */

import { clearScreenDown, createInterface, cursorTo, type Interface, moveCursor } from 'node:readline';
import { stripVTControlCharacters } from 'node:util';
import { Curtain } from './curtain.ts';
import type { Line, LineRequest, LineSource } from './lines.ts';
import type { Terminal } from './terminal.ts';

/** The terminal marks where a paste begins and ends, so that indented text is not indented once more. */
const PASTE_ON = '\x1b[?2004h';
const PASTE_OFF = '\x1b[?2004l';

interface Reading {
  readonly request: LineRequest;
  finish(line: Line): void;
}

export class LineEditor implements LineSource {
  readonly #terminal: Terminal;
  readonly #curtain: Curtain;
  #interface: Interface | undefined;
  #history: string[] = [];
  /** Lines that came with one paste, behind the one that was asked for. */
  readonly #ahead: string[] = [];
  #reading: Reading | undefined;
  #pasting = false;
  readonly #notePaste = (_text: string | undefined, key: { name?: string }) => {
    if (key.name === 'paste-start') this.#pasting = true;
    if (key.name === 'paste-end') this.#pasting = false;
  };

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#curtain = new Curtain(terminal.screen);
    terminal.stdin.on('keypress', this.#notePaste);
  }

  async read(request: LineRequest): Promise<Line> {
    const ahead = this.#ahead.shift();
    if (ahead !== undefined) return { kind: 'line', text: ahead };
    if (request.signal?.aborted) return { kind: 'aborted' };
    const editor = this.#interface ?? this.#open();
    editor.setPrompt(this.#placePrompt(request.prompt));
    this.#terminal.stdin.setRawMode?.(true);
    editor.prompt(true);
    this.#curtain.write(PASTE_ON);
    if (request.begin && !this.#pasting && editor.line === '') editor.write(request.begin);
    this.#curtain.hidden = request.password === true;
    return await this.#wait(editor, request);
  }

  /** Writes something above the line that is being typed. */
  async interject(write: () => Promise<void>): Promise<void> {
    const editor = this.#interface;
    if (!this.#reading || !editor || this.#curtain.hidden) return await write();
    const { rows } = editor.getCursorPos();
    moveCursor(this.#curtain, 0, -rows);
    cursorTo(this.#curtain, 0);
    clearScreenDown(this.#curtain);
    this.#terminal.lineEnded();
    await write();
    // The editor goes up as many rows as its cursor was down when it draws the line again.
    await this.#terminal.err(`${this.#terminal.unfinishedLine === '' ? '' : '\n'}${'\n'.repeat(rows)}`);
    if (this.#reading) editor.prompt(true);
  }

  close(): void {
    this.#interface?.close();
    this.#terminal.stdin.off('keypress', this.#notePaste);
    this.#curtain.destroy();
  }

  #wait(editor: Interface, request: LineRequest): Promise<Line> {
    const { promise, resolve } = Promise.withResolvers<Line>();
    const abort = () => this.#reading?.finish({ kind: 'aborted' });
    request.signal?.addEventListener('abort', abort, { once: true });
    this.#reading = {
      request,
      finish: (line) => {
        this.#reading = undefined;
        request.signal?.removeEventListener('abort', abort);
        this.#leaveLine(editor, line);
        if (line.kind !== 'end') editor.pause();
        this.#terminal.stdin.setRawMode?.(false);
        resolve(line);
      },
    };
    return promise;
  }

  /** The cursor goes to a line of its own. What was typed and is not wanted stays to be seen, and is forgotten. */
  #leaveLine(editor: Interface, { kind }: Line): void {
    const dropped = kind === 'interrupt' || kind === 'aborted';
    if (dropped) editor.write(null, { ctrl: true, name: 'e' });
    const entered = kind === 'line' && !this.#curtain.hidden;
    this.#curtain.hidden = false;
    if (!entered) this.#curtain.write(kind === 'interrupt' ? '^C\n' : '\n');
    this.#curtain.hidden = dropped;
    if (dropped) editor.write(null, { ctrl: true, name: 'u' });
    this.#curtain.hidden = false;
    this.#curtain.write(PASTE_OFF);
    this.#terminal.lineEnded();
  }

  /** A prompt continues the line that output left unfinished; the editor draws both, since it redraws whole lines. */
  #placePrompt(prompt: string): string {
    const end = prompt.lastIndexOf('\n') + 1;
    if (end > 0) {
      this.#curtain.write(prompt.slice(0, end));
      return prompt.slice(end);
    }
    const line = this.#terminal.unfinishedLine;
    const width = stripVTControlCharacters(line + prompt).length;
    if (width < this.#curtain.columns) return line + prompt;
    if (line !== '') this.#curtain.write('\n');
    return prompt;
  }

  #open(): Interface {
    const editor = createInterface({
      input: this.#terminal.stdin,
      output: this.#curtain,
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
    editor.on('line', (text) =>
      this.#reading ? this.#reading.finish({ kind: 'line', text }) : this.#ahead.push(text),
    );
    editor.on('SIGINT', () => this.#reading?.finish({ kind: 'interrupt' }));
    editor.on('close', () => {
      this.#interface = undefined;
      this.#reading?.finish({ kind: 'end' });
    });
    editor.on('history', (history) => {
      // Answers to input() are no code to come back to, and may be secret.
      if (this.#reading && !this.#reading.request.complete) history.splice(0, history.length, ...this.#history);
      this.#history = [...history];
    });
    this.#interface = editor;
    return editor;
  }
}
