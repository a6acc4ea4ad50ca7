/** Something that the host asks of an idle kernel, with the frame that answers it. */

import { FrameError } from '../protocol/frames.ts';

export interface QuestionSettings<T> {
  /** The type of the frame that answers. */
  readonly answer: number;
  readonly parse: (payload: Buffer) => T;
  readonly timeoutMs: number;
  readonly onTimeout: () => void;
  /** Takes what comes before the answer. */
  readonly part?: ((payload: Buffer) => void) | undefined;
}

/** What a kernel needs of a question, whatever its answer is. */
export type AnyQuestion = Pick<Question<never>, 'id' | 'answer' | 'part' | 'settle' | 'reject'>;

export class Question<T> {
  readonly id: number;
  readonly answer: number;
  readonly #settings: QuestionSettings<T>;
  readonly #settled = Promise.withResolvers<T>();
  #timer: NodeJS.Timeout;
  #over = false;

  constructor(id: number, settings: QuestionSettings<T>) {
    this.id = id;
    this.answer = settings.answer;
    this.#settings = settings;
    this.#timer = setTimeout(settings.onTimeout, settings.timeoutMs);
    // A kernel that dies may have nobody who waits any more.
    this.#settled.promise.catch(() => {});
  }

  get result(): Promise<T> {
    return this.#settled.promise;
  }

  /** Whether it was answered, or never will be. */
  get over(): boolean {
    return this.#over;
  }

  /** Another chance to answer, before something else is done about it. */
  extend(timeoutMs: number, onTimeout: () => void): void {
    if (this.#over) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(onTimeout, timeoutMs);
  }

  part(payload: Buffer): void {
    if (!this.#settings.part) throw new FrameError('a part of an answer that has none');
    this.#settings.part(payload);
  }

  settle(payload: Buffer): void {
    this.#end();
    try {
      this.#settled.resolve(this.#settings.parse(payload));
    } catch (error) {
      this.#settled.reject(error);
      // A kernel that answers in the wrong shape is cut off; what an answer says is the asker's to hear.
      if (error instanceof FrameError) throw error;
    }
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
