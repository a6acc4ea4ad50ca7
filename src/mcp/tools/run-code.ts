/** The MCP tool run_code. */

import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type InputRequiredResult,
  inputRequired,
  type McpServer,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import { messageOf } from '../../lib/values.ts';
import { type Elicitation, parseElicitation } from '../elicitation.ts';
import type { CallClient, ExecutionsAwaitingAnswer, McpExecution } from '../mcp-executions.ts';
import { AgentKeyArgument, asToolResult, callerOf, type ToolContext, textResult } from './tool-context.ts';

/** What a model would otherwise learn only from errors. */
const WASM_NOTE =
  'The kernel is CPython in WebAssembly: it has no threads, no subprocesses, no shell and no network, and it cannot load packages with native code (numpy, pandas).';

const describe = (
  kernel: string,
): string => `Run Python code in a persistent${kernel} kernel. Returns its output, the value of its last expression, images, and tracebacks.

Variables, functions and imports persist between calls, even if the server restarts, so build on them instead of repeating work. Top-level await works. A plot or an image is returned if it is the last expression or is passed to display().

Four objects are always available: tools (programs, MCP servers and HTTP endpoints: tools.list(), tools.NAME(...)), skills (stored Python functions: skills.search("..."), skills.NAME(...)), artifacts (stored data: artifacts.save(name, value), artifacts.load(name)) and deps (packages: deps.add("pandas")). For details, use help(tools), help(skills) and so on.

The code runs in its own folder, without network access unless the operator allowed it. Long output is cut in the middle; the result then says where the full output is. A line that begins with [notice] means that the kernel was restarted, and lists the restored variables.`;

const seconds = z.number().positive().max(86_400);

export function registerRunCode({ server, backend }: ToolContext, era: ProtocolEra): void {
  const { timeoutMs } = backend.options;
  const description = backend.inProcess ? `${describe('')}\n\n${WASM_NOTE}` : describe(', sandboxed');
  const inputSchema = z.strictObject({
    code: z.string().min(1).max(1_000_000).describe('The Python code. The value of its last expression is shown.'),
    agent_key: AgentKeyArgument,
    timeout: seconds.optional().describe(`Seconds until the code is interrupted; ${timeoutMs / 1000} by default.`),
    transaction: z
      .enum(['commit_always', 'commit_on_success', 'rollback_on_failure', 'rollback_always'])
      .optional()
      .describe(
        'What happens to changed variables: commit_always (the default) keeps them, rollback_on_failure (also called commit_on_success) restores them if the code fails, rollback_always is a dry run. Changes to files remain.',
      ),
  });
  const annotations = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true };
  server.registerTool(
    'run_code',
    { title: 'Run Python code', description, inputSchema, annotations },
    ({ code, agent_key, timeout, transaction }, context) =>
      asToolResult(backend, context, async () => {
        using call = new RunCodeCall(context, server, { era, pending: backend.pending });
        const resumed = call.takeResumed();
        if (resumed === 'unknown') {
          const text =
            'The code that asked has ended: the question was answered before, or nobody fetched the result in time.';
          return textResult(text, { isError: true });
        }
        const limit = timeout === undefined ? timeoutMs : Math.ceil(timeout * 1000);
        const request = { code, timeoutMs: limit, transaction };
        return await call.waitFor(resumed ?? backend.queue(agent_key).begin(request, call));
      }),
  );
}

export type ProtocolEra = 'legacy' | 'modern';

const ELICITATION_KEY = 'question';
/** The question has its own, much shorter timeout. */
const NO_TIMEOUT_MS = 2_147_483_647;

/**
 * One call of run_code: reports progress, and asks the user. Clients of the 2025 protocol are asked while the call stays open.
 * Those of the 2026 protocol get the question as the result of the call, and call again with the answer.
 */
class RunCodeCall implements CallClient, Disposable {
  readonly canElicit: boolean;
  readonly #context: ServerContext;
  readonly #era: ProtocolEra;
  readonly #pending: ExecutionsAwaitingAnswer;
  readonly #progress: CallProgress;

  constructor(
    context: ServerContext,
    server: McpServer,
    { era, pending }: { era: ProtocolEra; pending: ExecutionsAwaitingAnswer },
  ) {
    this.#context = context;
    this.#era = era;
    this.#pending = pending;
    this.#progress = new CallProgress(context);
    this.canElicit = supportsForms(context, server);
  }

  get signal(): AbortSignal {
    return this.#context.mcpReq.signal;
  }

  report(text: string): void {
    this.#progress.report(text);
  }

  /** The execution that this call answers; undefined if the call starts a new one. */
  takeResumed(): McpExecution | 'unknown' | undefined {
    const resumeToken = this.#context.mcpReq.requestState();
    if (resumeToken === undefined) return undefined;
    const found = typeof resumeToken === 'string' ? this.#pending.take(resumeToken) : undefined;
    if (!found) return 'unknown';
    found.elicitation.settle(parseElicitation(this.#context.mcpReq.inputResponses, ELICITATION_KEY));
    return found.execution;
  }

  async waitFor(execution: McpExecution): Promise<CallToolResult | InputRequiredResult> {
    using _attached = execution.attach(this);
    for (;;) {
      const step = await execution.next();
      if (step.kind === 'done') return step.result;
      const { elicitation } = step;
      if (this.#era === 'legacy') await this.#ask(elicitation);
      else {
        // The call ends here, and with it its progress.
        await this.#progress.flush();
        const requestState = this.#pending.add({ execution, elicitation, userId: callerOf(this.#context) });
        return inputRequired({
          inputRequests: { [ELICITATION_KEY]: inputRequired.elicit(elicitation.form) },
          requestState,
        });
      }
    }
  }

  [Symbol.dispose](): void {
    this.#progress[Symbol.dispose]();
  }

  async #ask(elicitation: Elicitation): Promise<void> {
    try {
      const signal = AbortSignal.any([elicitation.closed, this.signal]);
      const answer = await this.#context.mcpReq.elicitInput(elicitation.form, { signal, timeout: NO_TIMEOUT_MS });
      elicitation.settle(parseElicitation({ [ELICITATION_KEY]: answer }, ELICITATION_KEY));
    } catch (error) {
      elicitation.settle({ kind: 'declined', reason: `the client could not ask: ${messageOf(error)}` });
    }
  }
}

const Envelope = z.object({
  [CLIENT_CAPABILITIES_META_KEY]: z.custom<ClientCapabilities>((value) => Object(value) === value),
});

/** Clients of the 2026 protocol send their capabilities with each call, others once. `elicitation: {}` means forms. */
function supportsForms(context: ServerContext, server: McpServer): boolean {
  const envelope = Envelope.safeParse(context.mcpReq.envelope);
  const capabilities = envelope.success
    ? envelope.data[CLIENT_CAPABILITIES_META_KEY]
    : server.server.getClientCapabilities();
  const elicitation = capabilities?.elicitation;
  return elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined);
}

const MIN_INTERVAL_MS = 200;
/** Sent even without news, so that a client does not take long work for a hang. */
const MAX_INTERVAL_MS = 10_000;
const MAX_CHARACTERS = 2000;

/** Sends progress notifications for a call, if the client asked for them. */
export class CallProgress implements Disposable {
  readonly #context: ServerContext;
  readonly #token: string | number | undefined;
  readonly #began = performance.now();
  #waiting = '';
  #count = 0;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #over = false;

  constructor(context: ServerContext) {
    this.#context = context;
    this.#token = context.mcpReq._meta?.progressToken;
    this.#wait(MAX_INTERVAL_MS);
  }

  report(text: string): void {
    if (this.#token === undefined || this.#over) return;
    const first = this.#waiting === '';
    this.#waiting = (this.#waiting + text).slice(-MAX_CHARACTERS);
    if (first) this.#wait(this.#count === 0 ? 0 : MIN_INTERVAL_MS);
  }

  /** Sends pending text now. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#sending;
    if (this.#waiting !== '') await this.#send();
  }

  [Symbol.dispose](): void {
    this.#over = true;
    clearTimeout(this.#timer);
  }

  #wait(milliseconds: number): void {
    if (this.#token === undefined || this.#over) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#send(), milliseconds);
  }

  async #send(): Promise<void> {
    // The previous notification still waits for a slow reader.
    if (this.#sending || this.#token === undefined) return;
    const seconds = Math.round((performance.now() - this.#began) / 1000);
    const message = this.#waiting.toWellFormed() || `still running after ${seconds} s`;
    this.#waiting = '';
    this.#count++;
    const params = { progressToken: this.#token, progress: this.#count, message };
    // A client that is gone has ended the call, and with it the code.
    this.#sending = this.#context.mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {});
    await this.#sending;
    this.#sending = undefined;
    this.#wait(this.#waiting === '' ? MAX_INTERVAL_MS : MIN_INTERVAL_MS);
  }
}
