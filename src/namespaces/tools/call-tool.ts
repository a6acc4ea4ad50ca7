/** Runs one call of a tool: bind the arguments, ask for approval, get the credentials, do the work. */

import { createHash } from 'node:crypto';
import { Semaphore } from '../../lib/semaphore.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { CommandRunner } from '../../protocol/process.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import type { NamespaceCallContext } from '../host-methods.ts';
import { bindArguments, type CallArguments } from './bind-arguments.ts';
import { throwIfAborted } from './call-errors.ts';
import { buildArgv, runCli, shownCommand } from './cli-tool.ts';
import { prepareRequest, sendRequest, shownRequest } from './http-tool.ts';
import type { McpServers } from './mcp-servers.ts';
import { type CallSignature, callSignature } from './parameters.ts';
import { type Approve, askApproval } from './tool-approval.ts';
import { authenticate, type CredentialLookup, resolveEnvironment } from './tool-credentials.ts';
import type { CliTool, HttpTool, McpTool, ToolDefinition } from './tool-definition.ts';

/** Of one session, on the host: code may start as many calls as it likes. */
const MOST_AT_ONCE = 64;

export interface ToolCall extends CallArguments {
  readonly name: string;
  readonly recipe?: string | undefined;
}

export interface ToolRuntime {
  /** Runs programs in the sandbox and the workspace of the session. */
  readonly sandboxed: CommandRunner;
  /** Runs those that say `runs_on: host`. */
  readonly host: CommandRunner;
  /** Asks a person. Without it, what requires approval is refused. */
  readonly approve?: Approve | undefined;
  /** The secret of that name, which goes to the tool alone. */
  readonly credentials?: CredentialLookup | undefined;
}

export class ToolCaller {
  readonly #means: ToolRuntime;
  readonly #servers: McpServers;
  readonly #slots = new Semaphore(MOST_AT_ONCE);

  constructor(means: ToolRuntime, servers: McpServers) {
    this.#means = means;
    this.#servers = servers;
  }

  async perform(tool: ToolDefinition, call: ToolCall, context: NamespaceCallContext): Promise<PyValue> {
    const callee = call.recipe === undefined ? tool.name : `${tool.name}.${call.recipe}`;
    throwIfAborted(context.signal, callee);
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
    await this.#approved(tool, call, values, shownCommand(argv), context);
    const given = await resolveEnvironment(tool.env, this.#means.credentials, tool.name);
    const runner = tool.runs_on === 'host' ? this.#means.host : this.#means.sandboxed;
    const { signal } = context;
    return await this.#slots.run(() => runCli({ callee, tool, argv, ...given, signal }, runner), signal);
  }

  async #callHttp(callee: string, tool: HttpTool, call: ToolCall, context: NamespaceCallContext): Promise<PyValue> {
    const bound = bindArguments(callee, signatureOf(tool, call.recipe), call);
    const request = prepareRequest(callee, tool, bound);
    await this.#approved(tool, call, bound.values, shownRequest(request, tool.auth), context);
    const auth = await authenticate(tool.auth, this.#means.credentials, tool.name);
    const { signal } = context;
    return await this.#slots.run(() => sendRequest(callee, tool, request, auth, signal), signal);
  }

  async #callMcp(tool: McpTool, call: ToolCall, context: NamespaceCallContext): Promise<PyValue> {
    const prepared = await this.#servers.prepare(tool, call.recipe, call, context.signal);
    const values = new Map(Object.entries(prepared.arguments));
    await this.#approved(tool, call, values, `${prepared.name} ${JSON.stringify(prepared.arguments)}`, context);
    return await this.#slots.run(() => this.#servers.call(prepared, context), context.signal);
  }

  async #approved(
    tool: ToolDefinition,
    { recipe }: ToolCall,
    values: ReadonlyMap<string, PyValue>,
    summary: string,
    context: NamespaceCallContext,
  ): Promise<void> {
    if (!tool.requires_approval || context.approved === true) return;
    const definition = fingerprintOf(tool);
    const request = { tool: tool.name, recipe, arguments: Object.fromEntries(values), summary, definition };
    await askApproval(this.#means.approve, request, context);
  }
}

/** Of all that decides what a call does, beside its arguments. */
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
