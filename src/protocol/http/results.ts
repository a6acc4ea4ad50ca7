/** How an execution ended, as it crosses the wire: a ResultEvent with its values as `toWire` writes them. */

import { z } from 'zod';
import type { MimeBundle, ResultEvent } from '../events.ts';
import { valueFromWire, valueToWire, type WireValue } from '../py-values.ts';

/** A value as `toWire` writes it. */
export const Value = z.unknown();
export const Bundle = z.record(z.string(), Value);
export type Bundle = z.infer<typeof Bundle>;

const LostNames = z.array(z.object({ name: z.string(), reason: z.string() }));

const Death = z.object({
  code: z.enum(['KERNEL_DIED', 'KERNEL_OUT_OF_MEMORY', 'KERNEL_CPU_LIMIT', 'KERNEL_PROTOCOL']),
  message: z.string(),
  signal: z.string().exactOptional(),
  exitCode: z.number().exactOptional(),
  lastStderr: z.string().exactOptional(),
});

const wokenFields = { savedAgoMs: z.number().exactOptional(), restored: z.array(z.string()), lost: LostNames };

const Truncated = z.object({
  stdoutBytes: z.number().exactOptional(),
  stderrBytes: z.number().exactOptional(),
  reprCharacters: z.number().exactOptional(),
  displays: z.number().exactOptional(),
  mimeTypes: z.number().exactOptional(),
  streamedBytes: z.number().exactOptional(),
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
  value: Value.exactOptional(),
  repr: z.string().exactOptional(),
  data: Bundle.exactOptional(),
  error: z
    .object({ name: z.string(), message: z.string(), traceback: z.string(), exitCode: z.number().optional() })
    .exactOptional(),
  exitCode: z.literal(0).exactOptional(),
  truncated: Truncated.exactOptional(),
  death: Death.exactOptional(),
  transaction: z.enum(['committed', 'rolled_back', 'open']).exactOptional(),
  recovered: z.object({ ...wokenFields, cause: Death }).exactOptional(),
  woken: z.object(wokenFields).exactOptional(),
  durationMs: z.number(),
};

/** What a JSON execute answers with: the ending and all of the output that a result keeps. */
export const ExecutionResult = z.object({
  ...resultFields,
  stdout: z.string(),
  stderr: z.string(),
  displays: z.array(z.object({ type: z.literal('display'), data: Bundle })),
  /** Output and values that went to files. */
  files: z.array(OutputFile).exactOptional(),
});
export type ExecutionResult = z.infer<typeof ExecutionResult>;

export function bundleToWire(data: MimeBundle): Record<string, WireValue> {
  return Object.fromEntries(Object.entries(data).map(([type, value]) => [type, valueToWire(value)]));
}

export function resultToWire({ type, execution, value, data, displays, ...rest }: ResultEvent): ExecutionResult {
  return {
    ...structuredRest(rest),
    number: execution,
    ...(value === undefined ? {} : { value: valueToWire(value) }),
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

/** For a client: the same result as the library would give. */
export function resultFromWire(result: ExecutionResult): ResultEvent {
  const { number, value, data, displays, files, ...rest } = result;
  return {
    type: 'result',
    execution: number,
    ...rest,
    ...(value === undefined ? {} : { value: valueFromWire(value) }),
    ...(data === undefined ? {} : { data: bundleFromWire(data) }),
    displays: displays.map((display) => ({ type: 'display', data: bundleFromWire(display.data) })),
  };
}

export function bundleFromWire(data: z.infer<typeof Bundle>): MimeBundle {
  return Object.fromEntries(Object.entries(data).map(([type, value]) => [type, valueFromWire(value)]));
}
