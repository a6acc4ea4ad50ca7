/** Questions to the person at the terminal: input() and getpass() of running code, approval of tools, confirmations. */

import { SerialQueue } from '../../lib/queues.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { InputRequestEvent } from '../../protocol/execution-events.ts';
import type { ApprovalRequest } from '../../protocol/permission.ts';
import type { SessionApi } from '../../session/api.ts';
import type { OpenOptions } from '../backend/backend.ts';
import { UsageError } from '../command-errors.ts';
import { escapeControls } from '../format.ts';
import type { InputLine, LineSource } from './line-input.ts';
import type { CliTerminal } from './terminal.ts';

interface InputPrompterOptions {
  readonly session: Pick<SessionApi, 'answerInput' | 'cancelInput'>;
  readonly lines: LineSource;
  readonly terminal: Pick<CliTerminal, 'activeQuestion' | 'questionSignal'>;
  /** Called on Ctrl-C during an answer. */
  readonly onInterrupt: () => void;
}

export class InputPrompter implements Disposable {
  readonly #options: InputPrompterOptions;
  readonly #over = new AbortController();
  #before: Promise<void> = Promise.resolve();

  constructor(options: InputPrompterOptions) {
    this.#options = options;
  }

  /** Resolves when the question is answered or refused, or when the code has ended. */
  ask(request: InputRequestEvent): Promise<void> {
    this.#before = this.#before.then(() => this.#answer(request));
    return this.#before;
  }

  /** Cancels the open question, because the code has ended. */
  [Symbol.dispose](): void {
    this.#over.abort();
  }

  async #answer(request: InputRequestEvent): Promise<void> {
    const { id } = request;
    const { session, onInterrupt } = this.#options;
    const line = await this.#read(request);
    try {
      if (line.kind === 'line') await session.answerInput(id, line.text);
      else if (line.kind === 'end') await session.cancelInput(id, 'stdin has ended');
      else if (line.kind === 'interrupt') onInterrupt();
    } catch (error) {
      // The code continued without the answer: it was interrupted, or timed out.
      const late = error instanceof CellaError && ['INPUT_NOT_PENDING', 'SESSION_CLOSED'].includes(error.code);
      if (!late) throw error;
    }
  }

  /**
   * Asks again after an exclusive question: the prompt could be taken for a part of that question, and the typed text for an
   * answer to it.
   */
  async #read({ prompt, password }: InputRequestEvent): Promise<InputLine> {
    const { lines, terminal } = this.#options;
    const over = this.#over.signal;
    for (;;) {
      while (terminal.activeQuestion && !over.aborted) await terminal.activeQuestion;
      const { questionSignal: free } = terminal;
      const line = await lines.read({ prompt, password, signal: AbortSignal.any([over, free]) });
      if (line.kind !== 'aborted' || over.aborted || !free.aborted) return line;
    }
  }
}

interface ApprovalPrompterOptions {
  readonly terminal: CliTerminal;
  /** Undefined while nobody can be asked. */
  readonly lines: () => LineSource | undefined;
}

export type ApprovalPrompt = (request: ApprovalRequest) => Promise<boolean | { allowed: false; reason: string }>;

/** Anything but a clear yes means no, and so does a terminal without a person. */
export function approvalPrompter({ terminal, lines }: ApprovalPrompterOptions): ApprovalPrompt {
  // One question at a time: several tools may be called at once.
  const questions = new SerialQueue();
  const ask: ApprovalPrompt = async ({ tool, recipe, summary, signal }) => {
    const source = lines();
    if (!source) return { allowed: false, reason: 'there is no terminal to ask at' };
    const callee = recipe === undefined ? tool : `${tool}.${recipe}`;
    const line = await terminal.exclusive(async (screen) => {
      await screen.errLines(`${escapeControls(callee)} requires approval, and would do this:`);
      await screen.errLines(`  ${summary.split('\n').map(escapeControls).join('\n  ')}`, 'bold');
      return await source.read({ prompt: 'Allow it? [y/N] ', ignoreTypeahead: true, signal });
    });
    return isYes(line);
  };
  return (request) => questions.run(() => ask(request));
}

/** Anything but a clear yes means no. */
export function isYes(line: InputLine): boolean {
  return line.kind === 'line' && /^\s*y(es)?\s*$/i.test(line.text);
}

/** Asks before an irreversible action. Without a person to ask, the command requires --yes. */
export async function confirm(terminal: CliTerminal, question: string): Promise<boolean> {
  if (!terminal.interactive)
    throw new UsageError('There is no terminal to ask at.', 'Add --yes to do it without a question.');
  const { openLineInput } = await import('./line-editor.ts');
  const lines = openLineInput(terminal, () => {});
  try {
    return isYes(await lines.read({ prompt: `${question} [y/N] `, ignoreTypeahead: true }));
  } finally {
    lines.close();
  }
}

interface PromptHooksOptions {
  readonly terminal: CliTerminal;
  readonly json: boolean;
  /** Undefined while nobody can be asked. */
  readonly lines: () => LineSource | undefined;
}

export function promptHooks({
  terminal,
  json,
  lines,
}: PromptHooksOptions): Pick<OpenOptions, 'approve' | 'onProgress'> {
  return {
    // On a server, another client may be able to answer.
    ...(terminal.interactive ? { approve: approvalPrompter({ terminal, lines }) } : {}),
    onProgress: json ? undefined : terminal.progress,
  };
}
