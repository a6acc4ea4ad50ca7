/** Calls a tool that is a program: builds its argument list, never a shell line, and runs it. */

import { CellaError } from '../../protocol/errors.ts';
import type { CommandRunner } from '../../protocol/process.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import { argumentError, type BoundArguments, parametersOf, throwIfAborted } from './parameters.ts';
import { redact } from './tool-credentials.ts';
import type { CliTool, Option } from './tool-definition.ts';
import { cutNote, decodeWhole, type LargeResultTurn, parseToolJson, readLines, tail } from './tool-output.ts';

interface CliCall {
  /** The name in the code, such as `grep.count`. */
  readonly callee: string;
  readonly tool: CliTool;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Secrets in the environment, which the code must not see. */
  readonly secrets: readonly string[];
  readonly signal: AbortSignal;
  readonly turn: LargeResultTurn;
}

export async function runCli(call: CliCall, runner: CommandRunner): Promise<PyValue> {
  const { callee, tool, argv, env, signal } = call;
  throwIfAborted(signal, callee);
  const timeoutMs = Math.ceil(tool.timeout * 1000);
  const result = await runner.run({ argv, env, timeoutMs, outputLimitBytes: tool.output_limit, signal });
  throwIfAborted(signal, callee);
  const { timedOut, exit } = result;
  const { code: exitCode, signal: killedBy } = exit;
  const stdout = redact(decodeWhole(result.stdout), call.secrets);
  const stderr = redact(decodeWhole(result.stderr), call.secrets);
  const said = tail(stderr).trim() || tail(stdout).trim();
  const fail = (code: 'TOOL_FAILED' | 'TOOL_TIMEOUT', problem: string) => {
    const message = `tools.${callee} ${problem}.${said === '' ? '' : ` It said: ${said}`}`;
    return new CellaError(code, message, { details: { tool: callee, exitCode, killedBy, stderr: tail(stderr) } });
  };
  if (timedOut)
    throw fail(
      'TOOL_TIMEOUT',
      `did not end within ${tool.timeout} s and was killed, with everything that it had started`,
    );
  if (exitCode === undefined) throw fail('TOOL_FAILED', `was killed by ${killedBy}`);
  if (!tool.success_codes.includes(exitCode)) throw fail('TOOL_FAILED', `ended with exit code ${exitCode}`);
  return await resultValue(call, stdout, result.stdoutCut);
}

async function resultValue({ callee, tool, turn }: CliCall, text: string, cut: number): Promise<PyValue> {
  const what = `What tools.${callee} wrote`;
  if (tool.result === 'json') {
    if (cut === 0) return await parseToolJson(text, what, turn);
    const message = `tools.${callee} wrote more JSON than the ${tool.output_limit} bytes of its \`output_limit\`.`;
    throw new CellaError('TOOL_FAILED', message, { details: { tool: callee } });
  }
  const note = cut === 0 ? '' : cutNote(cut);
  if (tool.result === 'text') return text + note;
  const lines = await readLines(text, what, turn);
  if (note !== '') lines.push(note.trim());
  return lines;
}

export function buildArgv(callee: string, tool: CliTool, bound: BoundArguments): string[] {
  const refuse = (problem: string) => argumentError(callee, parametersOf(tool), problem);
  const texts = (
    name: string,
    value: PyValue,
    shape: { allow_dash: boolean; separator?: string | undefined },
  ): string[] => {
    const items = (Array.isArray(value) ? value : [value]).map(String);
    for (const item of bound.fromCaller.has(name) ? items : []) {
      const problem = textProblem(item, shape);
      if (problem !== undefined) throw refuse(`got a wrong ${name}: ${problem}`);
    }
    return items;
  };

  const argv = [...tool.command];
  for (const [name, option] of Object.entries(tool.schema.options)) {
    const value = bound.values.get(name);
    if (value === undefined || value === false) continue;
    argv.push(...optionArgv(flagOf(name, option), value, option, value === true ? [] : texts(name, value, option)));
  }
  const places: string[] = [];
  let missing: string | undefined;
  for (const { name, allow_dash } of tool.schema.positional) {
    const value = bound.values.get(name);
    if (value === undefined) missing ??= name;
    else if (missing !== undefined) throw refuse(`needs ${missing} where ${name} is given`);
    // Arguments after `--` are never options.
    else places.push(...texts(name, value, { allow_dash: allow_dash || tool.end_of_options }));
  }
  if (tool.end_of_options && places.length > 0) argv.push('--');
  return [...argv, ...places];
}

function optionArgv(flag: string, value: PyValue, { separator }: Option, items: readonly string[]): string[] {
  if (value === true) return [flag];
  const values = separator === undefined || items.length === 0 ? items : [items.join(separator)];
  return values.flatMap((item) => (flag.endsWith('=') ? [`${flag}${item}`] : [flag, item]));
}

function flagOf(name: string, { flag, short }: Option): string {
  if (flag !== undefined) return flag;
  if (short !== undefined) return `-${short.replace(/^-/, '')}`;
  return name.length === 1 ? `-${name}` : `--${name.replaceAll('_', '-')}`;
}

function textProblem(text: string, shape: { allow_dash: boolean; separator?: string | undefined }): string | undefined {
  if (text.includes('\0')) return 'it holds a NUL';
  if (!text.isWellFormed()) return 'it is not valid text';
  if (text.startsWith('-') && !shape.allow_dash) {
    return `it begins with a dash, so the program could treat it as an option (the definition can allow it with \`allow_dash: true\`)`;
  }
  if (shape.separator !== undefined && text.includes(shape.separator)) {
    return `an item contains ${JSON.stringify(shape.separator)}, which separates items`;
  }
  return undefined;
}

/** A command line for approval requests and messages, with control characters and spaces escaped. */
export function shownCommand(argv: readonly string[]): string {
  return argv.map((part) => (/^[\w@%+=:,./-]+$/.test(part) ? part : JSON.stringify(part))).join(' ');
}
