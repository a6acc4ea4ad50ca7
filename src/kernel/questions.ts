/** What the host asks of an idle kernel: about its names, to keep this moment, to save and to load. One at a time. */

import { CellaError } from '../protocol/errors.ts';
import { FrameType } from '../protocol/frames.ts';
import {
  type LoadedPayload,
  type PartHeader,
  parseAnswer,
  parseLoaded,
  parsePart,
  parseSaved,
  parseTwinned,
  type SavedPayload,
} from '../protocol/kernel.ts';
import type { PyValue } from '../protocol/values.ts';
import type { KernelLink } from './link.ts';
import { type AnyQuestion, Question, type QuestionSettings } from './question.ts';
import { type LoadableSegment, sendSegments } from './segments.ts';

const QUESTION_TIMEOUT_MS = 10_000;
const QUESTION_GRACE_MS = 2000;
/** There is one save or load at a time. */
const DURABLE = 1;
/** Past its own deadline, a kernel that saves has this long to say how it went. */
const SAVE_GRACE_MS = 5000;
/** Questions have numbers of their own, apart from executions, so that an interrupt can tell them apart. */
const QUESTION_BIT = 0x80000000;

/** How a kernel saves its namespace. */
export interface SaveSettings {
  readonly limitBytes: number;
  readonly seconds: number;
}

export interface QuestionEvents {
  /** Throws where the kernel is not idle. */
  checkIdle(): void;
  /** It does not answer, and is no use any more. */
  unanswered(): void;
  /** From here on it is the one that the kernel answers. */
  asked(question: AnyQuestion): void;
}

type Asked<T> = Omit<QuestionSettings<T>, 'onTimeout'> & Partial<Pick<QuestionSettings<T>, 'onTimeout'>>;

export class Questions {
  readonly #link: KernelLink;
  readonly #events: QuestionEvents;
  #count = 0;

  constructor(link: KernelLink, events: QuestionEvents) {
    this.#link = link;
    this.#events = events;
  }

  /** Asks about the namespace. The code's own objects may answer, so it is interrupted when it takes too long. */
  ask(method: string, params: Record<string, unknown>): Promise<PyValue> {
    this.#count = (this.#count + 1) % 0x7fffffff;
    const question: Question<PyValue> = this.#put((QUESTION_BIT | this.#count) >>> 0, {
      answer: FrameType.answer,
      parse: parseAnswerValue,
      timeoutMs: QUESTION_TIMEOUT_MS,
      onTimeout: () => {
        this.#link.interrupt(question.id);
        question.extend(QUESTION_GRACE_MS, () => this.#events.unanswered());
      },
    });
    this.#link.control.send(FrameType.request, question.id, JSON.stringify({ method, params }));
    return question.result;
  }

  /** Has the kernel keep this moment as a frozen fork of that number; rejects with FORK_UNSAFE where it cannot. */
  twin(number: number): Promise<void> {
    const parse = (payload: Buffer): void => {
      const { unsafe } = parseTwinned(payload);
      if (unsafe !== undefined) throw new CellaError('FORK_UNSAFE', `The kernel cannot be forked: ${unsafe}.`);
    };
    const question = this.#put(number, { answer: FrameType.twinned, parse, timeoutMs: QUESTION_TIMEOUT_MS });
    this.#link.control.send(FrameType.twin, number);
    return question.result;
  }

  /** Has the kernel take its namespace apart. `part` gets the pieces as they come. */
  save(settings: SaveSettings, part: (header: PartHeader, bytes: Buffer) => void): Promise<SavedPayload> {
    const question = this.#putLong({
      answer: FrameType.saved,
      parse: parseSaved,
      timeoutMs: settings.seconds * 1000 + SAVE_GRACE_MS,
      part: (payload) => {
        const { header, bytes } = parsePart(payload);
        part(header, bytes);
      },
    });
    this.#link.control.send(FrameType.save, DURABLE, JSON.stringify(settings));
    return question.result;
  }

  /** Has the kernel replace its namespace by what was saved, on the Python that is named. */
  async load(python: string, segments: AsyncIterable<LoadableSegment>, timeoutMs: number): Promise<LoadedPayload> {
    const question = this.#putLong({ answer: FrameType.loaded, parse: parseLoaded, timeoutMs });
    await sendSegments(this.#link.control, DURABLE, python, segments);
    return await question.result;
  }

  /** To save or load may take long. A kernel that was stopped from outside, and says nothing, is not given all that time. */
  #putLong<T>(settings: Asked<T>): Question<T> {
    let leftMs = settings.timeoutMs;
    let silent = true;
    const look = async (): Promise<void> => {
      const wasSilent = silent;
      silent = true;
      leftMs -= QUESTION_TIMEOUT_MS;
      const given = leftMs > 0 && !(wasSilent && (await this.#link.heldStill?.()));
      if (given) question.extend(Math.min(QUESTION_TIMEOUT_MS, leftMs), look);
      else if (!question.over) this.#events.unanswered();
    };
    const question: Question<T> = this.#put(DURABLE, {
      ...settings,
      timeoutMs: Math.min(QUESTION_TIMEOUT_MS, leftMs),
      onTimeout: look,
      part:
        settings.part &&
        ((payload) => {
          silent = false;
          settings.part?.(payload);
        }),
    });
    return question;
  }

  #put<T>(id: number, settings: Asked<T>): Question<T> {
    this.#events.checkIdle();
    const question = new Question(id, { onTimeout: () => this.#events.unanswered(), ...settings });
    this.#events.asked(question);
    return question;
  }
}

function parseAnswerValue(payload: Buffer): PyValue {
  const answer = parseAnswer(payload);
  if (!('error' in answer)) return answer.value;
  const { name, message, traceback } = answer.error;
  throw new CellaError('INTROSPECTION_FAILED', `${name}: ${message}`, { details: { traceback } });
}
