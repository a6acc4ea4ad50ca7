/** How an execution ended, as it crosses the wire: a ResultEvent with its values as `toWire` writes them. */

import { z } from 'zod';
import type { MimeBundle, ResultEvent } from '../events.ts';
import { fromWire, toWire, type WireValue } from './values.ts';

/** A value as `toWire` writes it. */
export const Value = z.unknown();
export const Bundle = z.record(z.string(), Value);

const LostNames = z.array(z.object({ name: z.string(), reason: z.string() }));

const Death = z.object({
  code: z.enum(['KERNEL_DIED', 'KERNEL_OUT_OF_MEMORY', 'KERNEL_CPU_LIMIT', 'KERNEL_PROTOCOL']),
  message: z.string(),
  signal: z.string().optional(),
  exitCode: z.number().optional(),
  lastStderr: z.string().optional(),
});

const wokenFields = { savedAgoMs: z.number().optional(), restored: z.array(z.string()), lost: LostNames };

const Truncated = z.object({
  stdoutBytes: z.number().optional(),
  stderrBytes: z.number().optional(),
  reprCharacters: z.number().optional(),
  displays: z.number().optional(),
  streamedBytes: z.number().optional(),
});

/** A file with what was too large for an event; see `GET /v1/sessions/:id/outputs/:file`. */
export const OutputFile = z.object({
  file: z.string(),
  mediaType: z.string(),
  /** At the time of the event: it may still grow until the result. */
  bytes: z.int().min(0),
});
export type OutputFile = z.infer<typeof OutputFile>;

/** What an ending is, without the output: that is in the events before it. */
export const resultFields = {
  status: z.enum(['ok', 'error', 'timeout', 'interrupted', 'died']),
  /** The number of the cell in its kernel: tracebacks name it `<cell N>`. */
  number: z.int().min(0),
  value: Value.optional(),
  repr: z.string().optional(),
  data: Bundle.optional(),
  error: z
    .object({ name: z.string(), message: z.string(), traceback: z.string(), exitCode: z.number().optional() })
    .optional(),
  exitCode: z.literal(0).optional(),
  truncated: Truncated.optional(),
  death: Death.optional(),
  transaction: z.enum(['committed', 'rolled_back', 'open']).optional(),
  recovered: z.object({ ...wokenFields, cause: Death }).optional(),
  woken: z.object(wokenFields).optional(),
  durationMs: z.number(),
};

/** What a JSON execute answers with: the ending and all of the output that a result keeps. */
export const ExecutionResult = z.object({
  ...resultFields,
  stdout: z.string(),
  stderr: z.string(),
  displays: z.array(z.object({ type: z.literal('display'), data: Bundle })),
  /** Output and values that went to files. */
  files: z.array(OutputFile).optional(),
});
export type ExecutionResult = z.infer<typeof ExecutionResult>;

export function bundleToWire(data: MimeBundle): Record<string, WireValue> {
  return Object.fromEntries(Object.entries(data).map(([type, value]) => [type, toWire(value)]));
}

export function resultToWire({ type, execution, value, data, displays, ...rest }: ResultEvent): ExecutionResult {
  return {
    ...structuredRest(rest),
    number: execution,
    ...(value === undefined ? {} : { value: toWire(value) }),
    ...(data === undefined ? {} : { data: bundleToWire(data) }),
    displays: displays.map((display) => ({ type: 'display', data: bundleToWire(display.data) })),
  };
}

type Rest = Omit<ResultEvent, 'type' | 'execution' | 'value' | 'data' | 'displays'>;

/** The lists of a ResultEvent may not be changed; those of the schema's type may. */
function structuredRest({ recovered, woken, ...rest }: Rest) {
  const lists = <T extends { restored: readonly string[]; lost: readonly { name: string; reason: string }[] }>(
    one: T,
  ) => ({
    ...one,
    restored: [...one.restored],
    lost: [...one.lost],
  });
  return {
    ...rest,
    ...(recovered ? { recovered: lists(recovered) } : {}),
    ...(woken ? { woken: lists(woken) } : {}),
  };
}

/** What came as JSON holds no undefined, whatever a schema's type allows. */
type Defined<T> = T extends readonly (infer Item)[]
  ? Defined<Item>[]
  : T extends object
    ? { [Name in keyof T]: Defined<Exclude<T[Name], undefined>> }
    : T;

const isDefined = <T>(_value: T | Defined<T>): _value is Defined<T> => true;

/** For a client: the same result as the library would give. */
export function resultFromWire(result: ExecutionResult): ResultEvent {
  const { number, value, data, displays, files, ...rest } = result;
  if (!isDefined(rest)) throw new TypeError('a result with undefined in it');
  return {
    type: 'result',
    execution: number,
    ...rest,
    ...(value === undefined ? {} : { value: fromWire(value) }),
    ...(data === undefined ? {} : { data: bundleFromWire(data) }),
    displays: displays.map((display) => ({ type: 'display', data: bundleFromWire(display.data) })),
  };
}

export function bundleFromWire(data: z.infer<typeof Bundle>): MimeBundle {
  return Object.fromEntries(Object.entries(data).map(([type, value]) => [type, fromWire(value)]));
}
