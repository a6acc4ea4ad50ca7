/** Runs a tool that is a program, and makes a value of what it wrote. */

import type { CommandResult, CommandRunner } from '../../protocol/command.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { PyValue } from '../../protocol/values.ts';
import type { CliTool } from './cli-definition.ts';
import { parseJson } from './json.ts';
import { stopIfAborted } from './stopped.ts';
import { cutNote, tail } from './text.ts';

export interface CliCall {
  /** How the code calls it: `grep.count`. */
  readonly callee: string;
  readonly tool: CliTool;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

export async function runCli({ callee, tool, argv, env, signal }: CliCall, runner: CommandRunner): Promise<PyValue> {
  const timeoutMs = Math.ceil(tool.timeout * 1000);
  const result = await runner.run({ argv, env, timeoutMs, outputLimitBytes: tool.output_limit, signal });
  stopIfAborted(signal, callee);
  const details = {
    tool: callee,
    exitCode: result.exitCode,
    killedBy: result.killedBy,
    stderr: tail(result.stderr.toString()),
  };
  if (result.timedOut) {
    const message = `tools.${callee} did not end within ${tool.timeout} s and was ended, with all that it had started.${words(result)}`;
    throw new CellaError('TOOL_TIMEOUT', message, { details });
  }
  if (result.exitCode === undefined || !tool.success_codes.includes(result.exitCode)) {
    const end =
      result.exitCode === undefined ? `was killed by ${result.killedBy}` : `ended with exit code ${result.exitCode}`;
    throw new CellaError('TOOL_FAILED', `tools.${callee} ${end}.${words(result)}`, { details });
  }
  return resultValue(callee, tool, result);
}

/** What the program said about it, where it said something. */
function words({ stdout, stderr }: CommandResult): string {
  const said = tail(stderr.toString()).trim() || tail(stdout.toString()).trim();
  return said === '' ? '' : ` It said: ${said}`;
}

function resultValue(callee: string, tool: CliTool, { stdout, stdoutCut }: CommandResult): PyValue {
  const text = stdout.toString('utf8');
  if (tool.result === 'json') {
    if (stdoutCut === 0) return parseJson(text, `What tools.${callee} wrote`);
    throw new CellaError(
      'TOOL_FAILED',
      `tools.${callee} wrote more JSON than the ${tool.output_limit} bytes of its \`output_limit\`.`,
    );
  }
  const note = stdoutCut === 0 ? '' : cutNote(stdoutCut);
  if (tool.result === 'text') return text + note;
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return note === '' ? lines : [...lines, note.trim()];
}
