/** The terminal of a command: ordered output with styles, one status line, and one question at a time. */

import type { Readable, Writable } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
import { styleText } from 'node:util';
import { cutToWidth } from '../command-output.ts';
import { escapeControls, keepColours } from '../format.ts';

export type TerminalInput = Readable & { readonly isTTY?: boolean; setRawMode?(on: boolean): unknown };
export type TerminalOutput = Writable & { readonly isTTY?: boolean; readonly columns?: number; readonly rows?: number };

interface TerminalStreams {
  readonly stdin: TerminalInput;
  readonly stdout: TerminalOutput;
  readonly stderr: TerminalOutput;
  readonly noColor?: boolean;
}

type Style = 'red' | 'yellow' | 'green' | 'dim' | 'bold';

/** Longer lines are not kept: a prompt then starts on a new line. */
const LONGEST_LINE = 4096;

const CLEAR_LINE = '\r\u001b[K';

/**
 * Whatever code has told the screen to do with text: another screen, a few rows of it, hidden letters, drawing
 * characters, letters pushed aside, no next line, no cursor, no drawing at all.
 */
const AS_USUAL = '\u001b[?47l\u001b7\u001b[r\u001b8\u001b[0m\u000f\u001b(B\u001b[4l\u001b[?7h\u001b[?25h\u001b[?2026l';

/** How long a command that is to end waits for the reader of its output. */
const PATIENCE_MS = 500;

class Sink {
  readonly stream: TerminalOutput;
  readonly #line: { text: string };

  constructor(stream: TerminalOutput, line: { text: string }) {
    this.stream = stream;
    this.#line = line;
    // A failed write reports a reader that went away. Without a listener, the error would end this process.
    stream.on('error', () => {});
  }

  get line(): string {
    return this.#line.text;
  }

  note(text: string): void {
    const start = Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r')) + 1;
    this.#line.text = (start > 0 ? '' : this.#line.text) + text.slice(Math.max(start, text.length - LONGEST_LINE));
  }

  write(text: string): Promise<void> {
    this.note(text);
    return new Promise((resolve, reject) => this.stream.write(text, (error) => (error ? reject(error) : resolve())));
  }
}

/** A terminal with an unknown size reports 0. */
const columnsIn = ({ columns }: TerminalOutput): number => columns || 80;

export class Terminal {
  readonly stdin: TerminalInput;
  readonly noColor: boolean;
  readonly #out: Sink;
  readonly #err: Sink;
  #ending = false;
  #hasStatus = false;
  #asking: Promise<void> | undefined;
  #free = new AbortController();

  constructor({ stdin, stdout, stderr, noColor = false }: TerminalStreams) {
    const screen = { text: '' };
    this.stdin = stdin;
    // One that cannot be read, as when its window was closed, has ended; without a listener it would end this process.
    stdin.on('error', () => {});
    this.#out = new Sink(stdout, stdout.isTTY ? screen : { text: '' });
    this.#err = new Sink(stderr, stderr.isTTY ? screen : { text: '' });
    this.noColor = noColor;
  }

  /** For who writes a report of its own. */
  get stdout(): TerminalOutput {
    return this.#out.stream;
  }

  /** The width of the screen; unlimited if a program reads. */
  get columns(): number {
    return this.#out.stream.isTTY ? columnsIn(this.#out.stream) : Infinity;
  }

  /** Whether a person can answer. */
  get interactive(): boolean {
    return this.stdin.isTTY === true;
  }

  /** Whether a status line can be redrawn. */
  get stderrIsScreen(): boolean {
    return this.#err.stream.isTTY === true;
  }

  /** Where a question is shown, so that redirected output stays free of it. */
  get screen(): TerminalOutput {
    return this.#err.stream.isTTY || !this.#out.stream.isTTY ? this.#err.stream : this.#out.stream;
  }

  /** What stands on the screen's last line, when it has no end yet. */
  get unfinishedLine(): string {
    return (this.screen === this.#err.stream ? this.#err : this.#out).line;
  }

  /** The next output begins a line, whatever was there: for who writes to the screen by other ways. */
  lineEnded(): void {
    (this.screen === this.#err.stream ? this.#err : this.#out).note('\n');
  }

  /**
   * Asks a person something that must not be taken for another thing: nothing else comes to the screen before it is
   * answered, and nothing that came before has a say in how it looks.
   */
  async exclusive<T>(ask: (screen: Pick<Terminal, 'errLines'>) => Promise<T>): Promise<T> {
    // Nothing comes between the look and the turn: of several that wait, each sees the one before.
    while (this.#asking) await this.#asking;
    const over = Promise.withResolvers<void>();
    this.#asking = over.promise;
    this.#free.abort();
    try {
      this.clearStatus();
      const { screen } = this;
      if (screen.isTTY) screen.write(AS_USUAL);
      return await ask({ errLines: (text, style) => this.#lines(this.#err, text, style) });
    } finally {
      this.#asking = undefined;
      this.#free = new AbortController();
      over.resolve();
    }
  }

  /** Resolves when the person has answered; undefined if no question is open. The next question may follow at once. */
  get activeQuestion(): Promise<void> | undefined {
    return this.#asking;
  }

  /** Aborted when a question opens: everything else that waits for an answer gives way. */
  get questionSignal(): AbortSignal {
    return this.#free.signal;
  }

  /** One line on how far something is, in place of the one before. Whatever is written next takes its place. */
  async status(text: string): Promise<void> {
    const { stream, line } = this.#err;
    // It would take the place of the question.
    if (this.#asking) return;
    if (!stream.isTTY) return await this.errLines(escapeControls(text));
    if (!this.#hasStatus && line !== '') await this.err('\n');
    this.#hasStatus = true;
    const shown = cutToWidth(escapeControls(text), columnsIn(stream) - 1);
    stream.write(`${CLEAR_LINE}${this.#styled(this.#err, shown, 'dim')}`);
  }

  clearStatus(): void {
    if (this.#hasStatus) this.#err.stream.write(CLEAR_LINE);
    this.#hasStatus = false;
  }

  out(text: string, style?: Style): Promise<void> {
    return this.#inTurn(this.#out, () => this.#text(this.#out, text, style));
  }

  err(text: string, style?: Style): Promise<void> {
    return this.#inTurn(this.#err, () => this.#text(this.#err, text, style));
  }

  /** Text that begins and ends its own lines. */
  outLines(text: string, style?: Style): Promise<void> {
    return this.#inTurn(this.#out, () => this.#lines(this.#out, text, style));
  }

  errLines(text: string, style?: Style): Promise<void> {
    return this.#inTurn(this.#err, () => this.#lines(this.#err, text, style)).catch(() => {}); // nobody can read it
  }

  /** Text for the screen, for who writes there by other ways. */
  styled(text: string, style: Style): string {
    return this.#styled(this.screen === this.#err.stream ? this.#err : this.#out, text, style);
  }

  /** After a signal, `flush` does not wait for a reader that does not read. */
  skipFlush(): void {
    this.#ending = true;
  }

  /** Resolves when everything written has left this process. */
  async flush(): Promise<void> {
    this.clearStatus();
    // Messages that cannot be written make no failure of a command that has done its work.
    const told = this.#err.write('').catch(() => {});
    const written = Promise.all([this.#out.write(''), told]);
    await (this.#ending ? Promise.race([written, setTimeout(PATIENCE_MS)]) : written);
  }

  /** At once, unless a question is open on the screen. */
  async #inTurn(sink: Sink, write: () => Promise<void>): Promise<void> {
    while (this.#asking && sink.stream.isTTY) await this.#asking;
    return await write();
  }

  #text(sink: Sink, text: string, style: Style | undefined): Promise<void> {
    this.clearStatus();
    return sink.write(this.#styled(sink, text, style));
  }

  #lines(sink: Sink, text: string, style: Style | undefined): Promise<void> {
    this.clearStatus();
    // Names, errors and contents come from others: a screen shows their control characters, and obeys only their colours.
    const shown = sink.stream.isTTY ? keepColours(text) : text;
    const lines = shown.endsWith('\n') ? shown : `${shown}\n`;
    return sink.write((sink.line === '' ? '' : '\n') + this.#styled(sink, lines, style));
  }

  #styled(sink: Sink, text: string, style: Style | undefined): string {
    if (style === undefined || this.noColor || !sink.stream.isTTY) return text;
    // The line's end stays outside, so that a styled line is over where it ends.
    const body = text.endsWith('\n') ? text.slice(0, -1) : text;
    return styleText(style, body, { validateStream: false }) + text.slice(body.length);
  }
}
