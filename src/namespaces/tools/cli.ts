/** Runs a tool that is a program, and makes a value of what it wrote. */

import type { CommandRunner } from '../../protocol/command.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { PyValue } from '../../protocol/kernel-marshal.ts';
import type { CliTool } from './cli-definition.ts';
import { strike } from './credentials.ts';
import { parseJson } from './json.ts';
import { stopIfAborted } from './stopped.ts';
import { cutNote, tail, wholeText } from './text.ts';

export interface CliCall {
  /** How the code calls it: `grep.count`. */
  readonly callee: string;
  readonly tool: CliTool;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Those of the environment that must not come back to the code. */
  readonly secrets: readonly string[];
  readonly signal: AbortSignal;
}

export async function runCli(call: CliCall, runner: CommandRunner): Promise<PyValue> {
  const { callee, tool, argv, env, signal } = call;
  stopIfAborted(signal, callee);
  const timeoutMs = Math.ceil(tool.timeout * 1000);
  const result = await runner.run({ argv, env, timeoutMs, outputLimitBytes: tool.output_limit, signal });
  stopIfAborted(signal, callee);
  const { exitCode, killedBy, timedOut } = result;
  const stdout = strike(wholeText(result.stdout), call.secrets);
  const stderr = strike(wholeText(result.stderr), call.secrets);
  const said = tail(stderr).trim() || tail(stdout).trim();
  const fail = (code: 'TOOL_FAILED' | 'TOOL_TIMEOUT', problem: string) => {
    const message = `tools.${callee} ${problem}.${said === '' ? '' : ` It said: ${said}`}`;
    return new CellaError(code, message, { details: { tool: callee, exitCode, killedBy, stderr: tail(stderr) } });
  };
  if (timedOut)
    throw fail('TOOL_TIMEOUT', `did not end within ${tool.timeout} s and was ended, with all that it had started`);
  if (exitCode === undefined) throw fail('TOOL_FAILED', `was killed by ${killedBy}`);
  if (!tool.success_codes.includes(exitCode)) throw fail('TOOL_FAILED', `ended with exit code ${exitCode}`);
  return await resultValue(callee, tool, stdout, result.stdoutCut);
}

async function resultValue(callee: string, tool: CliTool, text: string, cut: number): Promise<PyValue> {
  if (tool.result === 'json') {
    if (cut === 0) return await parseJson(text, `What tools.${callee} wrote`);
    const message = `tools.${callee} wrote more JSON than the ${tool.output_limit} bytes of its \`output_limit\`.`;
    throw new CellaError('TOOL_FAILED', message, { details: { tool: callee } });
  }
  const note = cut === 0 ? '' : cutNote(cut);
  if (tool.result === 'text') return text + note;
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return note === '' ? lines : [...lines, note.trim()];
}
