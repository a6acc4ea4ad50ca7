/** One container, from its creation to its removal. */

import type Docker from 'dockerode';
import { z } from 'zod';
import { ask, call, type Engine } from './engine.ts';
import { isGone } from './engine-error.ts';

/** An engine that hangs must not make others wait for a container that nobody needs. */
const REMOVE_MS = 10_000;
const LOOK_MS = 10_000;
/** On a machine that makes many containers at once, also one that is well takes seconds to answer. */
const PING_MS = 15_000;
const LONGEST_WORDS = 4000;

const Inspected = z.object({
  State: z.object({
    Running: z.boolean(),
    Paused: z.boolean(),
    OOMKilled: z.boolean(),
    ExitCode: z.int(),
    Pid: z.int(),
  }),
});

export type ContainerState = z.infer<typeof Inspected>['State'];

export class Container {
  readonly id: string;
  readonly #engine: Engine;
  readonly #container: Docker.Container;
  #removed: Promise<boolean> | undefined;

  constructor(engine: Engine, id: string) {
    this.id = id;
    this.#engine = engine;
    this.#container = engine.docker.getContainer(id);
  }

  /** `image` is what people call it. */
  static async create(engine: Engine, image: string, settings: Docker.ContainerCreateOptions): Promise<Container> {
    const create = (abortSignal: AbortSignal) => engine.docker.createContainer({ ...settings, abortSignal });
    // One that is busy takes long to make a container, and answers at once; one that hangs does neither.
    const hung = Promise.withResolvers<never>();
    call(engine, 'asking whether it is there', () => engine.docker.ping(), { timeoutMs: PING_MS }).catch(hung.reject);
    const { id } = await Promise.race([call(engine, 'making a container', create, { image }), hung.promise]);
    return new Container(engine, id);
  }

  async start(): Promise<void> {
    await call(this.#engine, 'starting a container', (abortSignal) => this.#container.start({ abortSignal }));
  }

  async state(): Promise<ContainerState> {
    const look = (abortSignal: AbortSignal) => this.#container.inspect({ abortSignal });
    return (await ask(this.#engine, 'looking at a container', Inspected, look, { timeoutMs: LOOK_MS })).State;
  }

  /** Waits for its end; rejects where that does not come in time. */
  async ended(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    const wait = (abortSignal: AbortSignal) => this.#container.wait({ abortSignal });
    await call(this.#engine, 'waiting for the end of a container', wait, { timeoutMs, signal });
  }

  /** What it has said last, before it was silent. */
  async lastWords(): Promise<string> {
    const options = { stdout: true, stderr: true, tail: 20, follow: false } as const;
    const read = () => this.#container.logs(options);
    const log = await call(this.#engine, 'reading the log of a container', read, { timeoutMs: LOOK_MS });
    return withoutHeaders(log).trim().slice(-LONGEST_WORDS);
  }

  /** Whatever it does. False where the engine could not be asked. */
  remove(): Promise<boolean> {
    this.#removed ??= this.#remove();
    return this.#removed;
  }

  async #remove(): Promise<boolean> {
    if (await this.#tryToRemove()) return true;
    // Podman keeps one that is paused.
    const unpause = (abortSignal: AbortSignal) => this.#container.unpause({ abortSignal });
    await call(this.#engine, 'letting a container go on', unpause, { timeoutMs: LOOK_MS }).catch(() => {}); // it was not
    return await this.#tryToRemove();
  }

  async #tryToRemove(): Promise<boolean> {
    const remove = (abortSignal: AbortSignal) => this.#container.remove({ force: true, v: true, abortSignal });
    try {
      await call(this.#engine, 'removing a container', remove, { timeoutMs: REMOVE_MS });
      return true;
    } catch (error) {
      return error instanceof Error && isGone(error.cause);
    }
  }
}

/** The log of a container without a terminal: `stream u8, 0 0 0, length u32 big endian, text`, again and again. */
function withoutHeaders(log: Buffer): string {
  let text = '';
  for (let at = 0; at + 8 <= log.length; ) {
    const length = log.readUInt32BE(at + 4);
    text += log.toString('utf8', at + 8, at + 8 + length);
    at += 8 + length;
  }
  return text;
}
