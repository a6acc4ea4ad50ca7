/** Requests of the host to an idle kernel, one at a time: introspection, snapshots, saving and loading checkpoints. */

import { CellaError } from '../protocol/errors.ts';
import { FrameError, FrameType, KernelLimit } from '../protocol/kernel-frames.ts';
import {
  encodeHostPayload,
  encodePart,
  type HostPayload,
  type LoadedPayload,
  type PartHeader,
  parseAnswerPayload,
  parseLoaded,
  parsePart,
  parseSaved,
  parseSnapshotTaken,
  type SavedPayload,
} from '../protocol/kernel-payloads.ts';
import type { Segment } from '../protocol/kernel-state.ts';
import type { PyValue } from '../protocol/py-values.ts';
import type { FrameConnection, KernelConnection } from './kernel-connection.ts';

const REQUEST_TIMEOUT_MS = 10_000;
const REQUEST_GRACE_MS = 2000;
/** Only one save or load runs at a time. */
const CHECKPOINT_REQUEST_ID = 1;
/** How long a saving kernel may take beyond its own deadline to report the outcome. */
const SAVE_GRACE_MS = 5000;
/** Requests have their own number range, so that an interrupt can tell them from executions. */
const REQUEST_ID_BIT = 0x80000000;

/** How a kernel saves its namespace. */
type SaveSettings = HostPayload<'save'>;

interface KernelRequestHooks {
  /** Throws if the kernel is not idle. */
  checkIdle(): void;
  /** The kernel did not answer in time and is no longer usable. */
  unanswered(): void;
  /** The kernel now works on this request. */
  started(request: PendingKernelRequest): void;
}

type RequestStart<T> = Omit<KernelRequestOptions<T>, 'onTimeout'> & Partial<Pick<KernelRequestOptions<T>, 'onTimeout'>>;

export class KernelRequests {
  readonly #connection: KernelConnection;
  readonly #hooks: KernelRequestHooks;
  #count = 0;

  constructor(connection: KernelConnection, hooks: KernelRequestHooks) {
    this.#connection = connection;
    this.#hooks = hooks;
  }

  /** Asks about the namespace. The code's own objects may run code, so the kernel is interrupted if it takes too long. */
  introspect(method: string, params: Record<string, unknown>): Promise<PyValue> {
    this.#count = (this.#count + 1) % 0x7fffffff;
    const request: KernelRequest<PyValue> = this.#start((REQUEST_ID_BIT | this.#count) >>> 0, {
      answer: FrameType.answer,
      parse: parseAnswerValue,
      timeoutMs: REQUEST_TIMEOUT_MS,
      onTimeout: () => {
        this.#connection.interrupt(request.id);
        request.extend(REQUEST_GRACE_MS, () => this.#hooks.unanswered());
      },
    });
    this.#connection.control.send(FrameType.request, request.id, encodeHostPayload('request', { method, params }));
    return request.result;
  }

  /** Takes a snapshot with this number. Rejects with FORK_UNSAFE if the kernel cannot be forked. */
  takeSnapshot(number: number): Promise<void> {
    const parse = (payload: Buffer): void => {
      const { unsafe } = parseSnapshotTaken(payload);
      if (unsafe !== undefined) throw new CellaError('FORK_UNSAFE', `The kernel cannot be forked: ${unsafe}.`);
    };
    const request = this.#start(number, { answer: FrameType.snapshotTaken, parse, timeoutMs: REQUEST_TIMEOUT_MS });
    this.#connection.control.send(FrameType.snapshot, number);
    return request.result;
  }

  /** Saves the namespace. `part` receives the pieces of the checkpoint as they arrive. */
  save(settings: SaveSettings, part: (header: PartHeader, bytes: Buffer) => void): Promise<SavedPayload> {
    const request = this.#startLong({
      answer: FrameType.saved,
      parse: parseSaved,
      timeoutMs: settings.seconds * 1000 + SAVE_GRACE_MS,
      part: (payload) => {
        const { header, bytes } = parsePart(payload);
        part(header, bytes);
      },
    });
    this.#connection.control.send(FrameType.save, CHECKPOINT_REQUEST_ID, encodeHostPayload('save', settings));
    return request.result;
  }

  /** Replaces the namespace with a checkpoint that was saved on the given Python. */
  async load(python: string, segments: AsyncIterable<LoadableSegment>, timeoutMs: number): Promise<LoadedPayload> {
    const request = this.#startLong({ answer: FrameType.loaded, parse: parseLoaded, timeoutMs });
    await sendSegments(this.#connection.control, CHECKPOINT_REQUEST_ID, python, segments);
    return await request.result;
  }

  /** Saving and loading can take long. A paused kernel that does not answer gets less time. */
  #startLong<T>(settings: RequestStart<T>): KernelRequest<T> {
    let leftMs = settings.timeoutMs;
    let silent = true;
    const checkProgress = async (): Promise<void> => {
      const wasSilent = silent;
      silent = true;
      leftMs -= REQUEST_TIMEOUT_MS;
      const given = leftMs > 0 && !(wasSilent && (await this.#connection.isPaused?.()));
      if (given) request.extend(Math.min(REQUEST_TIMEOUT_MS, leftMs), checkProgress);
      else if (!request.over) this.#hooks.unanswered();
    };
    const request: KernelRequest<T> = this.#start(CHECKPOINT_REQUEST_ID, {
      ...settings,
      timeoutMs: Math.min(REQUEST_TIMEOUT_MS, leftMs),
      onTimeout: checkProgress,
      part:
        settings.part &&
        ((payload) => {
          silent = false;
          settings.part?.(payload);
        }),
    });
    return request;
  }

  #start<T>(id: number, settings: RequestStart<T>): KernelRequest<T> {
    this.#hooks.checkIdle();
    const request = new KernelRequest(id, { onTimeout: () => this.#hooks.unanswered(), ...settings });
    this.#hooks.started(request);
    return request;
  }
}

function parseAnswerValue(payload: Buffer): PyValue {
  const answer = parseAnswerPayload(payload);
  if (!('error' in answer)) return answer.value;
  const { name, message, traceback } = answer.error;
  throw new CellaError('INTROSPECTION_FAILED', `${name}: ${message}`, { details: { traceback } });
}

interface KernelRequestOptions<T> {
  /** The frame type of the answer. */
  readonly answer: number;
  readonly parse: (payload: Buffer) => T;
  readonly timeoutMs: number;
  readonly onTimeout: () => void;
  /** Receives data before the answer. */
  readonly part?: ((payload: Buffer) => void) | undefined;
}

/** A request with any type of answer. */
export type PendingKernelRequest = Pick<KernelRequest<never>, 'id' | 'answer' | 'part' | 'settle' | 'reject'>;

class KernelRequest<T> {
  readonly id: number;
  readonly answer: number;
  readonly #settings: KernelRequestOptions<T>;
  readonly #settled = Promise.withResolvers<T>();
  #timer: NodeJS.Timeout;
  #over = false;

  constructor(id: number, settings: KernelRequestOptions<T>) {
    this.id = id;
    this.answer = settings.answer;
    this.#settings = settings;
    this.#timer = setTimeout(settings.onTimeout, settings.timeoutMs);
    // If the kernel dies, the result may have no reader.
    this.#settled.promise.catch(() => {});
  }

  get result(): Promise<T> {
    return this.#settled.promise;
  }

  /** Whether the request is settled. */
  get over(): boolean {
    return this.#over;
  }

  /** Restarts the timeout, with another callback. */
  extend(timeoutMs: number, onTimeout: () => void): void {
    if (this.#over) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(onTimeout, timeoutMs);
  }

  part(payload: Buffer): void {
    if (!this.#settings.part) throw new FrameError('a part of an answer that has no parts');
    this.#settings.part(payload);
  }

  /** Throws FrameError if the answer has the wrong shape: the kernel is cut off, which ends the request. */
  settle(payload: Buffer): void {
    try {
      this.#settled.resolve(this.#settings.parse(payload));
    } catch (error) {
      if (error instanceof FrameError) throw error;
      // Any other error goes to the caller.
      this.#settled.reject(error);
    }
    this.#end();
  }

  reject(error: Error): void {
    this.#end();
    this.#settled.reject(error);
  }

  #end(): void {
    this.#over = true;
    clearTimeout(this.#timer);
  }
}

export interface LoadableSegment {
  readonly header: Pick<Segment, 'kind' | 'names' | 'portable'>;
  readonly bytes: Uint8Array;
}

const PART_BYTES = KernelLimit.partBytes;
/** The most data in flight. */
const MAX_IN_FLIGHT_BYTES = 4 * 1024 * 1024;

async function sendSegments(
  control: FrameConnection,
  id: number,
  python: string,
  segments: AsyncIterable<LoadableSegment>,
): Promise<void> {
  let ahead = 0;
  for await (const { header, bytes } of segments) {
    for (let at = 0; at === 0 || at < bytes.length; at += PART_BYTES) {
      const piece = bytes.subarray(at, at + PART_BYTES);
      const last = at + PART_BYTES >= bytes.length;
      const sent = control.sendAndDrain(FrameType.load, id, encodePart({ ...header, last }, piece));
      ahead += piece.length;
      if (ahead < MAX_IN_FLIGHT_BYTES) continue;
      // The kernel may be slow: data that waits for it must not fill the host's memory.
      await sent;
      ahead = 0;
    }
  }
  control.send(FrameType.load, id, encodePart({ end: true, python }, Buffer.alloc(0)));
}
