/**
 * Binds what a caller passed to the parameters of a tool and checks it before anything runs; the errors that all kinds of
 * tools share.
 */

import { CellaError } from '../../protocol/errors.ts';
import type { ToolParameter } from '../../protocol/namespace-models.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import { type CallSignature, valueProblem } from './parameters.ts';

export function abortedError(callee: string): CellaError {
  return new CellaError('ABORTED', `tools.${callee} was stopped: nobody waits for it any more.`);
}

export function throwIfAborted(signal: AbortSignal, callee: string): void {
  if (signal.aborted) throw abortedError(callee);
}

export function argumentError(callee: string, parameters: readonly ToolParameter[], problem: string): CellaError {
  const known = parameters.map(({ name }) => name);
  const takes = known.length === 0 ? 'It takes no arguments.' : `It takes ${known.join(', ')}.`;
  return new CellaError('TOOL_ARGUMENTS', `tools.${callee} ${problem}. ${takes}`, { details: { tool: callee, known } });
}

export interface CallArguments {
  readonly positional: readonly PyValue[];
  readonly named: Readonly<Record<string, PyValue>>;
}

export interface BoundArguments {
  /** Values by name, with defaults and presets. Missing names were not given. */
  readonly values: ReadonlyMap<string, PyValue>;
  /** The names whose values come from the caller, who is not trusted. */
  readonly fromCaller: ReadonlySet<string>;
}

/** `callee`: the name in the code, for errors, such as `grep.count`. */
export function bindArguments(
  callee: string,
  { parameters, presetValues: fixed }: CallSignature,
  given: CallArguments,
): BoundArguments {
  const received = receive(callee, parameters, given);
  const values = new Map(fixed);
  for (const parameter of parameters) {
    const { name } = parameter;
    const value = received.has(name) ? (received.get(name) ?? null) : (parameter.default ?? null);
    if (value === null || (parameter.variadic && Array.isArray(value) && value.length === 0)) {
      if (parameter.required) throw argumentError(callee, parameters, `needs ${name}`);
      continue;
    }
    const problem = received.has(name) ? valueProblem(parameter, value) : undefined;
    if (problem !== undefined) throw argumentError(callee, parameters, `was given a wrong ${name}: it ${problem}`);
    values.set(name, value);
  }
  return { values, fromCaller: new Set(received.keys()) };
}

/** Arguments by name. None removes a default or a preset. */
function receive(callee: string, parameters: readonly ToolParameter[], given: CallArguments): Map<string, PyValue> {
  const received = new Map<string, PyValue>();
  const places = parameters.filter((parameter) => parameter.positional);
  for (const [index, value] of given.positional.entries()) {
    const last = places.at(-1);
    const parameter = places[index] ?? (last?.variadic ? last : undefined);
    if (parameter === undefined) {
      throw argumentError(
        callee,
        parameters,
        `takes ${places.length} arguments by place, and got ${given.positional.length}`,
      );
    }
    if (!parameter.variadic) received.set(parameter.name, value);
    else if (!received.has(parameter.name)) received.set(parameter.name, given.positional.slice(index));
  }
  const known = new Set(parameters.map(({ name }) => name));
  for (const [name, value] of Object.entries(given.named)) {
    if (!known.has(name)) throw argumentError(callee, parameters, `has no argument ${JSON.stringify(shortened(name))}`);
    if (received.has(name)) throw argumentError(callee, parameters, `was given ${name} twice, by place and by name`);
    received.set(name, value);
  }
  return received;
}

function shortened(name: string): string {
  return name.length > 80 ? `${name.slice(0, 80)}…` : name;
}
