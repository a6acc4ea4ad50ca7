/** The rules for the names and sources of skills. Sources are parsed in a helper process, one at a time and without running them. */

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Readable, Writable } from 'node:stream';
import { z } from 'zod';
import { packageFile } from '../../interpreter/package-file.ts';
import { BoundedMap } from '../../lib/bounded-map.ts';
import { IdleTimeout } from '../../lib/deadline.ts';
import { parseCheapJson } from '../../lib/json-scanner.ts';
import { LineSplitter } from '../../lib/line-splitter.ts';
import { endsAfterKill } from '../../lib/process-end.ts';
import { SerialQueue } from '../../lib/queues.ts';
import { CellaError } from '../../protocol/errors.ts';
import { checkIdentifier, SkillParameter } from '../../protocol/namespace-models.ts';

/** The most parameters of `run`. A skill that was stored before this limit keeps the first ones. */
export const MAX_PARAMETERS = 255;

export const ParsedSource = z.strictObject({
  /** The module's docstring, else the first paragraph of that of `run`, else empty. */
  description: z.string(),
  /** If there is one more than the limit, the skill has too many. */
  parameters: z.array(z.strictObject(SkillParameter.shape)).max(MAX_PARAMETERS + 1),
  /** The place of the module's docstring in the source. */
  docstring: z.strictObject({ start: z.int().min(0), end: z.int().min(0) }).nullable(),
});
export type ParsedSource = z.infer<typeof ParsedSource>;

/** Parses without running the source. */
export interface SkillParser extends AsyncDisposable {
  /** Throws SKILL_INVALID, with `line` and `reason` in its details, if the source is not a skill. */
  parse(source: string): Promise<ParsedSource>;
}

/** Methods of `skills`. A skill is called as `skills.name(...)`, so it cannot have these names. */
const METHODS: ReadonlySet<string> = new Set(['list', 'get', 'search', 'create', 'delete', 'invoke']);

export function checkSkillName(name: unknown): string {
  return checkIdentifier(name, 'skill', METHODS);
}

const MAX_SOURCE_BYTES = 256 * 1024;

export function checkSourceLength(source: string): void {
  if (Buffer.byteLength(source) > MAX_SOURCE_BYTES)
    throw invalidSkill(`it is longer than ${MAX_SOURCE_BYTES / 1024} KB`);
}

export function invalidSkill(reason: string, line?: number): CellaError {
  const at = line === undefined ? '' : `, line ${line}`;
  return new CellaError('SKILL_INVALID', `The source is not a skill${at}: ${reason}.`, { details: { reason, line } });
}

interface PythonSkillParserOptions {
  /** Returns the path of the interpreter. Called when a helper starts. */
  readonly python: () => Promise<string>;
  /** Another interpreter, for hosts without a Python. */
  readonly fallback?: StartParser | undefined;
  /** Whether results are cached for all parsers with the same interpreter. */
  readonly cached?: boolean;
  /** The timeout for one source. */
  readonly timeoutMs?: number;
  /** An idle helper ends after this time. */
  readonly idleMs?: number;
}

/** Shared by all parsers, because each access to the skills of a user opens a new one. */
const readings = new BoundedMap<string, ParsedSource>(10_000);
const MOST_CHARACTERS = 4000;

const Reply = z.union([
  z.strictObject({ read: ParsedSource }),
  z.strictObject({ refused: z.strictObject({ reason: z.string(), line: z.int().nullable() }) }),
]);

export class PythonSkillParser implements SkillParser {
  readonly #python: () => Promise<string>;
  readonly #fallback: StartParser | undefined;
  readonly #cached: boolean;
  readonly #timeoutMs: number;
  #interpreter: Promise<string | undefined> | undefined;
  #helper: ParserHelper | undefined;
  readonly #queue = new SerialQueue();
  readonly #idle: IdleTimeout;
  #closed = false;

  constructor({ python, fallback, cached = false, timeoutMs = 15_000, idleMs = 30_000 }: PythonSkillParserOptions) {
    this.#python = python;
    this.#fallback = fallback;
    this.#cached = cached;
    this.#timeoutMs = timeoutMs;
    this.#idle = new IdleTimeout(idleMs, () => void this.#dismiss());
  }

  parse(source: string): Promise<ParsedSource> {
    return this.#queue.run(() => (this.#cached ? this.#readOnce(source) : this.#read(source)));
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#idle.stop();
    await this.#queue.idle();
    await this.#dismiss();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #readOnce(source: string): Promise<ParsedSource> {
    // Another interpreter may parse it differently. Without one, nothing is cached.
    this.#interpreter ??= this.#python().catch(() => undefined);
    const python = await this.#interpreter;
    const key = createHash('sha256').update(`${python}\0${source}`).digest('base64');
    const known = readings.get(key);
    const reading = known ?? (await this.#read(source));
    if (python === undefined || JSON.stringify(reading).length > MOST_CHARACTERS) return reading;
    // Entries that are used stay.
    readings.set(key, reading);
    return reading;
  }

  async #read(source: string): Promise<ParsedSource> {
    if (this.#closed) throw new CellaError('SESSION_CLOSED', 'The parser of skills is closed.');
    checkSourceLength(source);
    this.#idle.stop();
    const helper = await this.#start();
    const answer = await helper.ask(source, this.#timeoutMs);
    if (answer.kind !== 'reply') {
      await this.#dismiss();
      throw invalidSkill(`the compiler cannot read it: ${answer.reason}`);
    }
    this.#idle.restart();
    return understood(answer.line);
  }

  async #start(): Promise<ParserHelper> {
    if (this.#helper?.alive) return this.#helper;
    const program = await readFile(packageFile('python/cella_skill_reader.py'), 'utf8');
    this.#helper = await this.#startHere(program).catch((error: unknown) => {
      if (this.#fallback && error instanceof CellaError && error.code === 'PYTHON_NOT_FOUND') {
        return this.#fallback(program);
      }
      throw error;
    });
    return this.#helper;
  }

  async #startHere(program: string): Promise<ParserHelper> {
    return await ParserProcess.start(await this.#python(), program);
  }

  async #dismiss(): Promise<void> {
    const helper = this.#helper;
    this.#helper = undefined;
    await helper?.end();
  }
}

/** Checks the answer like any untrusted input, as a source may have taken over the helper. */
function understood(line: string): ParsedSource {
  const parsed = Reply.safeParse(parseCheapJson(line));
  if (!parsed.success) throw invalidSkill('the parser gave an invalid result');
  if ('read' in parsed.data) return parsed.data.read;
  const { reason, line: at } = parsed.data.refused;
  throw invalidSkill(reason, at ?? undefined);
}

type HelperProcess = ChildProcessByStdio<Writable, Readable, null>;

const START_MS = 15_000;
const MOST_REPLY_BYTES = 4 * 1024 * 1024;

/** One helper process: one line in, one line out, with limits on time and length. */
export class ParserProcess implements ParserHelper {
  readonly #child: HelperProcess;
  readonly #exit: Promise<string>;
  #alive = true;
  #lines = new LineSplitter(MOST_REPLY_BYTES);
  #onAnswer: ((answer: ParserAnswer) => void) | undefined;

  /** Resolves when the helper has dropped its rights and waits for a source. */
  static async start(python: string, program: string): Promise<ParserProcess> {
    // Passes the program as text, as the user that it switches to may not be able to read its folder.
    const child = spawn(python, ['-I', '-S', '-B', '-X', 'utf8', '-c', program], {
      cwd: '/',
      env: {},
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    const started = new ParserProcess(child);
    const ready = await started.#answer(START_MS);
    if (ready.kind === 'reply' && ready.line === 'ready') return started;
    await started.end();
    const reason = ready.kind === 'reply' ? 'the parser gave an invalid answer' : ready.reason;
    throw new CellaError('PYTHON_NOT_FOUND', `${python} did not start to read skills: ${reason}.`);
  }

  private constructor(child: HelperProcess) {
    this.#child = child;
    this.#exit = new Promise((resolve) => {
      child.once('error', (error) => resolve(error.message));
      child.once('exit', (code, signal) => resolve(signal ? `it was ended by ${signal}` : `it exited with ${code}`));
    });
    void this.#exit.then((how) => {
      this.#alive = false;
      this.#onAnswer?.({ kind: 'gone', reason: `the parser ended, ${how}` });
    });
    child.stdout.on('data', (chunk: Buffer) => this.#take(chunk));
    // If the helper has ended, its exit reports that.
    child.stdin.on('error', () => undefined);
    child.stdout.on('error', () => undefined);
    this.#hold(false);
  }

  get alive(): boolean {
    return this.#alive;
  }

  async ask(source: string, timeoutMs: number): Promise<ParserAnswer> {
    this.#lines = new LineSplitter(MOST_REPLY_BYTES);
    const seconds = Math.ceil(timeoutMs / 1000) + 1;
    this.#child.stdin.write(`${JSON.stringify({ source, seconds })}\n`);
    return await this.#answer(timeoutMs);
  }

  /** May be called again. */
  async end(): Promise<void> {
    if (!this.#alive) return;
    // Keeps this process running until the helper has ended.
    this.#hold(true);
    this.#child.kill('SIGKILL');
    await endsAfterKill(this.#exit, `The parser of skills (process ${this.#child.pid})`);
  }

  async #answer(timeoutMs: number): Promise<ParserAnswer> {
    if (!this.#alive) return { kind: 'gone', reason: `the parser ended, ${await this.#exit}` };
    this.#hold(true);
    const { promise, resolve } = Promise.withResolvers<ParserAnswer>();
    this.#onAnswer = resolve;
    const timer = setTimeout(() => resolve({ kind: 'late', reason: `it took longer than ${timeoutMs} ms` }), timeoutMs);
    const answer = await promise;
    clearTimeout(timer);
    this.#onAnswer = undefined;
    this.#hold(false);
    return answer;
  }

  #take(chunk: Buffer): void {
    for (const { kind, bytes } of this.#lines.push(chunk)) {
      if (kind === 'line') this.#onAnswer?.({ kind: 'reply', line: Buffer.from(bytes).toString() });
      else this.#onAnswer?.({ kind: 'flood', reason: 'the result of the parser is too long' });
    }
  }

  /** A helper that waits for work does not keep the host process running. */
  #hold(needed: boolean): void {
    const child = this.#child;
    for (const part of [child, child.stdin, child.stdout]) {
      if (needed) (part as { ref?(): void }).ref?.();
      else (part as { unref?(): void }).unref?.();
    }
  }
}

type ParserAnswer =
  | { readonly kind: 'reply'; readonly line: string }
  | { readonly kind: 'gone' | 'late' | 'flood'; readonly reason: string };

export interface ParserHelper {
  readonly alive: boolean;
  /** Reads one source at a time, and never runs it. The caller ends a helper that times out. */
  ask(source: string, timeoutMs: number): Promise<ParserAnswer>;
  /** May be called again. */
  end(): Promise<void>;
}

/**
 * An interpreter that is not a process of the host. It runs `program` once, under another name than `__main__`, and answers
 * each source with the line that the program's `reply(source)` returns.
 */
type StartParser = (program: string) => Promise<ParserHelper>;
