/** The MCP tool run_code. */

import { z } from 'zod';
import { type ProtocolEra, RunCodeCall } from '../run-code-call.ts';
import { AgentKey, asToolResult, type ToolContext, textResult } from './tool-context.ts';

/** What a model would find out by failing. */
const WASM_NOTE =
  'The kernel is CPython in WebAssembly: it has no threads, no subprocesses, no shell and no network, and packages with native code (numpy, pandas) cannot be had.';

const describe = (
  kernel: string,
): string => `Run Python code in a persistent${kernel} kernel and get what it prints, the value of its last expression, pictures, and tracebacks.

Variables, functions and imports stay from call to call, also after the server was restarted, so build on them instead of repeating work. Top-level await works. A plot or an image that is the last expression, or is passed to display(), comes back as a picture.

Four objects are always there: tools (programs, MCP servers and HTTP endpoints: tools.list(), tools.NAME(...)), skills (Python functions kept for later: skills.search("..."), skills.NAME(...)), artifacts (data kept for later: artifacts.save(name, value), artifacts.load(name)) and deps (packages: deps.add("pandas")). help(tools) and so on tell more.

The code works in a folder of its own, without network unless the operator allowed it. Long output is cut in the middle, and the answer says where all of it is. A line that begins with [notice] tells that the kernel was restarted and which names came back.`;

const seconds = z.number().positive().max(86_400);

export function registerRunCode({ server, backend }: ToolContext, era: ProtocolEra): void {
  const { timeoutMs } = backend.options;
  const description = backend.isWasm ? `${describe('')}\n\n${WASM_NOTE}` : describe(', sandboxed');
  const inputSchema = z.strictObject({
    code: z.string().min(1).max(1_000_000).describe('The Python code. The value of its last expression is shown.'),
    agent_key: AgentKey,
    timeout: seconds
      .optional()
      .describe(`Seconds until the code is interrupted; ${timeoutMs / 1000} where it is left out.`),
    transaction: z
      .enum(['commit_always', 'commit_on_success', 'rollback_on_failure', 'rollback_always'])
      .optional()
      .describe(
        'What becomes of changed names: commit_always keeps them (the default), rollback_on_failure takes them back where the code fails, rollback_always is a dry run. Files stay changed.',
      ),
  });
  const annotations = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true };
  server.registerTool(
    'run_code',
    { title: 'Run Python code', description, inputSchema, annotations },
    ({ code, agent_key, timeout, transaction }, context) =>
      asToolResult(backend, async () => {
        using call = new RunCodeCall(context, server, { era, pending: backend.pending });
        const resumed = call.takeResumed();
        if (resumed === 'unknown') {
          const text = 'The code that asked is gone: it was answered before, or its result was not called for in time.';
          return textResult(text, { isError: true });
        }
        const limit = timeout === undefined ? timeoutMs : Math.ceil(timeout * 1000);
        const request = { code, timeoutMs: limit, transaction };
        return await call.waitFor(resumed ?? backend.queue(agent_key).begin(request, call));
      }),
  );
}
