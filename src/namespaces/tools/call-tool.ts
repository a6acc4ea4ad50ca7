/** Runs one call of a tool: binds the arguments, asks for approval, gets the credentials, and does the work. */

import { createHash } from 'node:crypto';
import { raceAbort } from '../../lib/abort.ts';
import { giveWay, ownTurn } from '../../lib/event-loop.ts';
import { Semaphore } from '../../lib/queues.ts';
import { messageOf } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ApprovalRequest, Approve } from '../../protocol/permission.ts';
import type { CommandRunner } from '../../protocol/process.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import type { NamespaceCallContext } from '../host-methods.ts';
import { buildArgv, runCli, shownCommand } from './cli-tool.ts';
import { prepareRequest, sendRequest, shownRequest } from './http-tool.ts';
import type { McpServers } from './mcp-servers.ts';
import {
  abortedError,
  bindArguments,
  type CallArguments,
  type CallSignature,
  callSignature,
  throwIfAborted,
} from './parameters.ts';
import { authenticate, type CredentialLookup, resolveEnvironment } from './tool-credentials.ts';
import type { CliTool, HttpTool, McpTool, ToolDefinition } from './tool-definition.ts';
import type { LargeResultTurn } from './tool-output.ts';

/** The most calls of one session that run on the host at a time. */
const MOST_AT_ONCE = 64;
/** The most output of these calls together, in bytes. Of a call, stdout and stderr count with their limits. */
const MOST_OUTPUT_BYTES = 128 * 1024 * 1024;

export interface ToolCall extends CallArguments {
  readonly name: string;
  readonly recipe?: string | undefined;
}

export interface ToolRuntime {
  /** Runs programs in the session's sandbox and workspace. */
  readonly sandboxed: CommandRunner;
  /** Runs programs with `runs_on: host`. */
  readonly host: CommandRunner;
  /** Asks a person. Without it, calls that require approval are refused. */
  readonly approve?: Approve | undefined;
  /** The secret of this name, which only the tool gets. */
  readonly credentials?: CredentialLookup | undefined;
}

export class ToolCaller {
  readonly #runtime: ToolRuntime;
  readonly #servers: McpServers;
  readonly #slots = new Semaphore(MOST_AT_ONCE);
  readonly #outputBytes = new Semaphore(MOST_OUTPUT_BYTES);
  /** The values of a large result can take many times the memory of its text. */
  readonly #largeResults = new Semaphore(1);

  constructor(runtime: ToolRuntime, servers: McpServers) {
    this.#runtime = runtime;
    this.#servers = servers;
  }

  async perform(tool: ToolDefinition, call: ToolCall, context: NamespaceCallContext): Promise<PyValue> {
    const callee = call.recipe === undefined ? tool.name : `${tool.name}.${call.recipe}`;
    throwIfAborted(context.signal, callee);
    // Arguments of megabytes were decoded in this turn of the event loop.
    await giveWay();
    switch (tool.type) {
      case 'cli':
        return await this.#callCli(callee, tool, call, context);
      case 'http':
        return await this.#callHttp(callee, tool, call, context);
      case 'mcp':
        return await this.#callMcp(tool, call, context);
    }
  }

  async #callCli(callee: string, tool: CliTool, call: ToolCall, context: NamespaceCallContext): Promise<PyValue> {
    const { values, ...bound } = bindArguments(callee, signatureOf(tool, call.recipe), call);
    const argv = buildArgv(callee, tool, { values, ...bound });
    await this.#approved(tool, call, values, () => shownCommand(argv), context);
    const given = await resolveEnvironment(tool.env, this.#runtime.credentials, tool.name);
    const runner = tool.runs_on === 'host' ? this.#runtime.host : this.#runtime.sandboxed;
    const { signal } = context;
    return await this.#inRoom(callee, tool, context, (turn) =>
      runCli({ callee, tool, argv, ...given, signal, turn }, runner),
    );
  }

  async #callHttp(callee: string, tool: HttpTool, call: ToolCall, context: NamespaceCallContext): Promise<PyValue> {
    const bound = bindArguments(callee, signatureOf(tool, call.recipe), call);
    const request = await prepareRequest(callee, tool, bound);
    await this.#approved(tool, call, bound.values, () => shownRequest(request, tool.auth), context);
    const auth = await authenticate(tool.auth, this.#runtime.credentials, tool.name);
    const { signal } = context;
    return await this.#inRoom(callee, tool, context, (turn) =>
      sendRequest(callee, tool, request, auth, { signal, turn }),
    );
  }

  async #callMcp(tool: McpTool, call: ToolCall, context: NamespaceCallContext): Promise<PyValue> {
    const prepared = await this.#servers.prepare(tool, call.recipe, call, context.signal);
    const values = new Map(Object.entries(prepared.arguments));
    const summary = () => `${prepared.name} ${JSON.stringify(prepared.arguments)}`;
    await this.#approved(tool, call, values, summary, context);
    return await this.#inRoom(prepared.callee, tool, context, (turn) => this.#servers.call(prepared, context, turn));
  }

  /** Runs the work when the session has room for its output. The result keeps the room until it is delivered. */
  async #inRoom(
    callee: string,
    { output_limit }: ToolDefinition,
    { signal, delivered = Promise.resolve() }: NamespaceCallContext,
    work: (turn: LargeResultTurn) => Promise<PyValue>,
  ): Promise<PyValue> {
    const held = new DisposableStack();
    const hold = async (room: Semaphore, weight: number) => {
      const taken = await room.take({ weight, signal });
      if (held.disposed) taken[Symbol.dispose]();
      else held.use(taken);
      // Without room: the code no longer waits.
      throwIfAborted(signal, callee);
    };
    let turn: Promise<void> | undefined;
    try {
      await hold(this.#slots, 1);
      await hold(this.#outputBytes, 2 * output_limit);
      return await work(() => {
        turn ??= hold(this.#largeResults, 1);
        return turn;
      });
    } finally {
      void delivered.then(() => held.dispose());
    }
  }

  async #approved(
    tool: ToolDefinition,
    { recipe }: ToolCall,
    values: ReadonlyMap<string, PyValue>,
    summary: () => string,
    context: NamespaceCallContext,
  ): Promise<void> {
    if (!tool.requires_approval || context.approved === true) return;
    await ownTurn();
    const definition = fingerprintOf(tool);
    const request = { tool: tool.name, recipe, arguments: Object.fromEntries(values), summary: summary(), definition };
    await askApproval(this.#runtime.approve, request, context);
  }
}

/** Resolves if the call is allowed. Any other outcome, even an error of the hook, refuses it. */
async function askApproval(
  approve: Approve | undefined,
  request: Omit<ApprovalRequest, 'signal'>,
  context: NamespaceCallContext,
): Promise<void> {
  if (approve === undefined) throw refusedError(request, 'nobody can be asked');
  const asked = context
    .whileAsking(() => approve({ ...request, signal: context.signal }))
    .catch((error: unknown) => {
      throw refusedError(request, `nobody could be asked (${messageOf(error)})`);
    });
  const answer = await raceAbort(asked, context.signal, () => abortedError(calleeOf(request)));
  const { allowed, reason } = typeof answer === 'boolean' ? { allowed: answer, reason: undefined } : answer;
  if (allowed !== true) throw refusedError(request, reason ?? 'the person denied it');
}

function calleeOf({ tool, recipe }: Pick<ApprovalRequest, 'tool' | 'recipe'>): string {
  return recipe === undefined ? tool : `${tool}.${recipe}`;
}

function refusedError(request: Omit<ApprovalRequest, 'signal'>, reason: string): CellaError {
  const { tool, recipe, summary } = request;
  const message = `tools.${calleeOf(request)} requires approval and was not run: ${reason}.`;
  return new CellaError('APPROVAL_REFUSED', message, { details: { tool, recipe, summary } });
}

/** A fingerprint of everything that decides what a call does, except its arguments. */
function fingerprintOf({ description: _text, tags: _tags, ...tool }: ToolDefinition): string {
  return createHash('sha256').update(JSON.stringify(tool)).digest('hex').slice(0, 32);
}

function signatureOf(tool: CliTool | HttpTool, recipe: string | undefined): CallSignature {
  if (recipe === undefined) return callSignature(tool);
  const found = Object.hasOwn(tool.recipes, recipe) ? tool.recipes[recipe] : undefined;
  if (found !== undefined) return callSignature(tool, found);
  const known = Object.keys(tool.recipes);
  const list = known.length === 0 ? 'It has none.' : `It has ${known.join(', ')}.`;
  const message = `tools.${tool.name} has no recipe ${JSON.stringify(recipe.slice(0, 80))}. ${list}`;
  throw new CellaError('TOOL_NOT_FOUND', message, { details: { tool: tool.name, known } });
}
