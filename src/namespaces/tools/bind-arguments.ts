/** Binds what a caller passed to the parameters of a tool, and checks it before anything runs. */

import type { PyValue } from '../../protocol/py-values.ts';
import { argumentError } from './call-errors.ts';
import { type CallSignature, type Parameter, valueProblem } from './parameters.ts';

export interface CallArguments {
  readonly positional: readonly PyValue[];
  readonly named: Readonly<Record<string, PyValue>>;
}

export interface BoundArguments {
  /** By name, with defaults and presets. What is not there is not given. */
  readonly values: ReadonlyMap<string, PyValue>;
  /** The names whose values came from the caller, who is not trusted. */
  readonly fromCaller: ReadonlySet<string>;
}

/** `callee` is how the code calls it, for errors: `grep.count`. */
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

/** By name, as given. None takes away a default or a preset. */
function receive(callee: string, parameters: readonly Parameter[], given: CallArguments): Map<string, PyValue> {
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
