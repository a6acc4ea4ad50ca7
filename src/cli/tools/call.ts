/** Calls a tool with what a person has typed, and shows what came of it. */

import { type PyValue, valueToJson } from '../../protocol/kernel-marshal.ts';
import type { ToolsApi } from '../../session/api.ts';
import { parseArguments } from '../call-arguments.ts';
import { Exit } from '../command-errors.ts';
import { withSession } from '../command-lifecycle.ts';
import { CommandOutput } from '../command-output.ts';
import type { OpenOptions } from '../context.ts';
import type { NamespaceContext } from '../session-options.ts';
import { openLineInput } from '../terminal/line-editor.ts';
import type { LineSource } from '../terminal/line-input.ts';
import { approvalPrompter } from '../terminal/prompts.ts';

export interface ToolWords {
  /** `NAME`, or `NAME.RECIPE`. */
  readonly callee: string;
  readonly words: readonly string[];
  readonly args: string | undefined;
  readonly signal?: AbortSignal;
  /** Whoever types it has allowed it. */
  readonly approved?: boolean;
}

export interface CallRequest extends ToolWords {
  readonly session: OpenOptions;
  readonly json: boolean;
}

export async function call(request: CallRequest, context: NamespaceContext): Promise<number> {
  const { terminal } = context;
  const report = new CommandOutput(terminal, request);
  let lines: LineSource | undefined;
  const approve = terminal.interactive ? { approve: approvalPrompter({ terminal, lines: () => lines }) } : {};
  try {
    return await withSession({ ...request.session, ...approve }, context, async (session, signals) => {
      if (terminal.interactive) lines = openLineInput(terminal, signals.interrupt);
      return await callTool(session.tools, request, report);
    });
  } finally {
    lines?.close();
  }
}

export async function callTool(tools: ToolsApi, request: ToolWords, report: CommandOutput): Promise<number> {
  const { callee, words, args, signal, approved = false } = request;
  const dot = callee.indexOf('.');
  const [name, recipe] = dot < 0 ? [callee, undefined] : [callee.slice(0, dot), callee.slice(dot + 1)];
  const tool = await tools.describe(name);
  const parameters = tool.recipes.find((each) => each.name === recipe)?.parameters ?? tool.parameters;
  const { named, positional } = parseArguments(words, args, parameters);
  const result = await tools.call(tool.name, named, {
    positional,
    approved,
    ...(recipe === undefined ? {} : { recipe }),
    ...(signal === undefined ? {} : { signal }),
    onProgress: (text) => {
      // What cannot be shown here fails again, and is told, with the result.
      if (!report.json) void report.terminal.status(text).catch(() => {});
    },
  });
  const facts = { tool: tool.name, ...(recipe === undefined ? {} : { recipe }), result: valueToJson(result) };
  if (await report.printJson(facts)) return Exit.ok;
  const text = resultToText(result);
  if (text !== '') await report.terminal.outLines(text);
  return Exit.ok;
}

/** Text as it is, lines as lines, and anything else as JSON. */
function resultToText(result: PyValue): string {
  if (result === null) return '';
  if (typeof result === 'string') return result;
  if (Array.isArray(result) && result.every((line) => typeof line === 'string')) return result.join('\n');
  return JSON.stringify(valueToJson(result), undefined, 2);
}
