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
 * Resets what printed text may have changed: alternate screen, scroll region, hidden text, character set, insert mode,
 * wrapping, cursor, synchronised drawing.
 */
const AS_USUAL = '\u001b[?47l\u001b7\u001b[r\u001b8\u001b[0m\u000f\u001b(B\u001b[4l\u001b[?7h\u001b[?25h\u001b[?2026l';

/** How long an ending command waits for the reader of its output. */
const WRITE_TIMEOUT_MS = 500;

/** Resolves when the stream has taken the data. */
export function writeTo(stream: NodeJS.WritableStream, data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => stream.write(data, (error) => (error ? reject(error) : resolve())));
}

class Sink {
  readonly stream: TerminalOutput;
  readonly #line: { text: string };

  constructor(stream: TerminalOutput, line: { text: string }) {
    this.stream = stream;
    this.#line = line;
    // A failed write already reports a reader that exited. Without a listener the error would end this process.
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
    return writeTo(this.stream, text);
  }
}

/** A terminal with an unknown size reports 0. */
const columnsIn = ({ columns }: TerminalOutput): number => columns || 80;

export class CliTerminal {
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
    // A terminal that cannot be read, for example after its window was closed, counts as ended. Without a listener the error
    // would end this process.
    stdin.on('error', () => {});
    this.#out = new Sink(stdout, stdout.isTTY ? screen : { text: '' });
    this.#err = new Sink(stderr, stderr.isTTY ? screen : { text: '' });
    this.noColor = noColor;
  }

  /** For callers that write their own report. */
  get stdout(): TerminalOutput {
    return this.#out.stream;
  }

  /** The width of the screen; unlimited if a program reads the output. */
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

  /** The stream for questions, so that redirected output does not contain them. */
  get screen(): TerminalOutput {
    return this.#err.stream.isTTY || !this.#out.stream.isTTY ? this.#err.stream : this.#out.stream;
  }

  /** The unfinished last line on the screen. */
  get unfinishedLine(): string {
    return (this.screen === this.#err.stream ? this.#err : this.#out).line;
  }

  /** Starts the next output on a new line. For callers that write to the screen directly. */
  lineEnded(): void {
    (this.screen === this.#err.stream ? this.#err : this.#out).note('\n');
  }

  /**
   * Asks a question that must not be mistaken for other output: nothing else is printed until it is answered, and earlier
   * output cannot affect how it looks.
   */
  async exclusive<T>(ask: (screen: Pick<CliTerminal, 'errLines'>) => Promise<T>): Promise<T> {
    // No other call can come between this check and taking the turn, so each waiting caller sees the one before.
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

  /** Resolves when the open question is answered; undefined if there is none. The next question may follow at once. */
  get activeQuestion(): Promise<void> | undefined {
    return this.#asking;
  }

  /** Aborts when a question opens, so that other reads give way. */
  get questionSignal(): AbortSignal {
    return this.#free.signal;
  }

  /** Shows progress on one line, which replaces the previous status. The next output replaces it. */
  async status(text: string): Promise<void> {
    const { stream, line } = this.#err;
    // It would overwrite the question.
    if (this.#asking) return;
    if (!stream.isTTY) return await this.errLines(escapeControls(text));
    if (!this.#hasStatus && line !== '') await this.err('\n');
    this.#hasStatus = true;
    const shown = cutToWidth(escapeControls(text), columnsIn(stream) - 1);
    stream.write(`${CLEAR_LINE}${this.#styled(this.#err, shown, 'dim')}`);
  }

  /** Shows the status without waiting. A failed write fails again with the next output, and is reported there. */
  readonly progress = (text: string): void => {
    void this.status(text).catch(() => {});
  };

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

  /** Prints text that begins and ends its own lines. */
  outLines(text: string, style?: Style): Promise<void> {
    return this.#inTurn(this.#out, () => this.#lines(this.#out, text, style));
  }

  errLines(text: string, style?: Style): Promise<void> {
    return this.#inTurn(this.#err, () => this.#lines(this.#err, text, style)).catch(() => {}); // there is no reader left
  }

  /** Styles text for callers that write to the screen directly. */
  styled(text: string, style: Style): string {
    return this.#styled(this.screen === this.#err.stream ? this.#err : this.#out, text, style);
  }

  /** After a signal, `flush` does not wait for a reader that has stopped reading. */
  skipFlush(): void {
    this.#ending = true;
  }

  /** Resolves when all output has left this process. */
  async flush(): Promise<void> {
    this.clearStatus();
    // A command that has done its work does not fail because its messages cannot be written.
    const errWritten = this.#err.write('').catch(() => {});
    const written = Promise.all([this.#out.write(''), errWritten]);
    await (this.#ending ? Promise.race([written, setTimeout(WRITE_TIMEOUT_MS)]) : written);
  }

  /** Runs at once, unless a question is open on the screen. */
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
    // Names, errors and contents come from others: a screen shows their control characters and applies only their colours.
    const shown = sink.stream.isTTY ? keepColours(text) : text;
    const lines = shown.endsWith('\n') ? shown : `${shown}\n`;
    return sink.write((sink.line === '' ? '' : '\n') + this.#styled(sink, lines, style));
  }

  #styled(sink: Sink, text: string, style: Style | undefined): string {
    if (style === undefined || this.noColor || !sink.stream.isTTY) return text;
    // Keeps the line end outside of the style, so that the style ends with the line.
    const body = text.endsWith('\n') ? text.slice(0, -1) : text;
    return styleText(style, body, { validateStream: false }) + text.slice(body.length);
  }
}
