/** Reads skills in a helper of the interpreter, one after the other; a source that ends the helper is no skill. */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { packageFile } from '../../interpreter/package-file.ts';
import { parseCheapJson } from '../../lib/json-scanner.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type SkillReader, SkillReading } from './contract.ts';
import { invalidSkill } from './invalid.ts';
import type { ReaderHelper, StartReader } from './reader-helper.ts';
import { ReaderProcess } from './reader-process.ts';
import { checkLength } from './source-limit.ts';

export interface PythonSkillReaderOptions {
  /** Gives the path of the interpreter. It is asked when a helper is started. */
  readonly python: () => Promise<string>;
  /** Where the host has no Python at all: another interpreter that reads in its place. */
  readonly elsewhere?: StartReader | undefined;
  /** Whether what was read is kept for all readers of the same interpreter. */
  readonly keep?: boolean;
  /** For one source. */
  readonly timeoutMs?: number;
  /** A helper that nobody needs any longer is ended after this time. */
  readonly idleMs?: number;
}

/** Of all readers: to look at the skills of a user opens them anew each time. */
const readings = new Map<string, SkillReading>();
const MOST_READINGS = 10_000;
const MOST_CHARACTERS = 4000;

const Reply = z.union([
  z.strictObject({ read: SkillReading }),
  z.strictObject({ refused: z.strictObject({ reason: z.string(), line: z.int().nullable() }) }),
]);

export class PythonSkillReader implements SkillReader {
  readonly #python: () => Promise<string>;
  readonly #elsewhere: StartReader | undefined;
  readonly #keep: boolean;
  readonly #timeoutMs: number;
  readonly #idleMs: number;
  #interpreter: Promise<string | undefined> | undefined;
  #helper: ReaderHelper | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #idle: NodeJS.Timeout | undefined;
  #closed = false;

  constructor({ python, elsewhere, keep = false, timeoutMs = 15_000, idleMs = 30_000 }: PythonSkillReaderOptions) {
    this.#python = python;
    this.#elsewhere = elsewhere;
    this.#keep = keep;
    this.#timeoutMs = timeoutMs;
    this.#idleMs = idleMs;
  }

  read(source: string): Promise<SkillReading> {
    const reading = this.#turn.then(() => (this.#keep ? this.#readOnce(source) : this.#read(source)));
    // The next in line does not care how this one ended.
    this.#turn = reading.catch(() => undefined);
    return reading;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#idle);
    await this.#turn;
    await this.#dismiss();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #readOnce(source: string): Promise<SkillReading> {
    // What another interpreter makes of it may be something else. Where there is none, nothing is kept.
    this.#interpreter ??= this.#python().catch(() => undefined);
    const python = await this.#interpreter;
    const key = createHash('sha256').update(`${python}\0${source}`).digest('base64');
    const known = readings.get(key);
    const reading = known ?? (await this.#read(source));
    if (python === undefined || JSON.stringify(reading).length > MOST_CHARACTERS) return reading;
    // What is used stays.
    readings.delete(key);
    readings.set(key, reading);
    const [oldest] = readings.keys();
    if (readings.size > MOST_READINGS && oldest !== undefined) readings.delete(oldest);
    return reading;
  }

  async #read(source: string): Promise<SkillReading> {
    if (this.#closed) throw new CellaError('SESSION_CLOSED', 'The reader of skills is closed.');
    checkLength(source);
    clearTimeout(this.#idle);
    const helper = await this.#start();
    const answer = await helper.ask(source, this.#timeoutMs);
    if (answer.kind !== 'reply') {
      await this.#dismiss();
      throw invalidSkill(`the compiler cannot read it: ${answer.reason}`);
    }
    this.#idle = setTimeout(() => void this.#dismiss(), this.#idleMs).unref();
    return understood(answer.line);
  }

  async #start(): Promise<ReaderHelper> {
    if (this.#helper?.alive) return this.#helper;
    const program = await readFile(packageFile('python/cella_skill_reader.py'), 'utf8');
    this.#helper = await this.#startHere(program).catch((error: unknown) => {
      if (this.#elsewhere && error instanceof CellaError && error.code === 'PYTHON_NOT_FOUND') {
        return this.#elsewhere(program);
      }
      throw error;
    });
    return this.#helper;
  }

  async #startHere(program: string): Promise<ReaderHelper> {
    return await ReaderProcess.start(await this.#python(), program);
  }

  async #dismiss(): Promise<void> {
    const helper = this.#helper;
    this.#helper = undefined;
    await helper?.end();
  }
}

/** The source may have taken over the helper: what it says is checked as anything from outside. */
function understood(line: string): SkillReading {
  const parsed = Reply.safeParse(parseCheapJson(line));
  if (!parsed.success) throw invalidSkill('its reading could not be understood');
  if ('read' in parsed.data) return parsed.data.read;
  const { reason, line: at } = parsed.data.refused;
  throw invalidSkill(reason, at ?? undefined);
}
