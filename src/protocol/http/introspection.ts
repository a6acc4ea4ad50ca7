/** What can be asked about the names of a session. */

import { z } from 'zod';
import { endpoint } from './endpoint.ts';

const tag = 'Introspection';
const code = z.string().max(1_000_000);
const At = z.strictObject({
  code,
  cursor: z.int().min(0).optional().meta({ description: 'UTF-16 offset; the end by default.' }),
});

const Completion = z
  .object({
    matches: z.array(z.object({ text: z.string(), type: z.string() })).readonly(),
    start: z.int(),
    end: z.int(),
  })
  .meta({ id: 'Completion' });

const Inspection = z
  .object({
    found: z.boolean(),
    name: z.string().optional(),
    type: z.string().optional(),
    signature: z.string().optional(),
    doc: z.string().optional(),
    source: z.string().optional(),
    repr: z.string().optional(),
  })
  .meta({ id: 'Inspection' });

const Completeness = z
  .discriminatedUnion('status', [
    z.object({ status: z.literal('complete') }),
    z.object({ status: z.literal('incomplete'), indent: z.string() }),
    z.object({ status: z.literal('invalid'), message: z.string() }),
  ])
  .meta({ id: 'Completeness' });

const Variable = z
  .object({
    name: z.string(),
    type: z.string(),
    size: z.number(),
    length: z.string().exactOptional(),
    preview: z.string(),
  })
  .meta({ id: 'Variable' });

const HistoryEntry = z
  .object({
    execution: z.int(),
    code: z.string(),
    status: z.enum(['ok', 'error', 'timeout', 'interrupted', 'died']),
  })
  .meta({ id: 'HistoryEntry' });

const view = { kind: 'session', right: 'view' } as const;
const use = { kind: 'session', right: 'use' } as const;

export const CompleteCode = endpoint('post /v1/sessions/{id}/complete', tag, use, {
  summary: 'What may stand at the cursor',
  body: At,
  result: Completion,
});

export const InspectCode = endpoint('post /v1/sessions/{id}/inspect', tag, use, {
  summary: 'What the name at the cursor is',
  body: At,
  result: Inspection,
});

export const IsComplete = endpoint('post /v1/sessions/{id}/is-complete', tag, use, {
  summary: 'Whether code is a whole cell',
  body: z.strictObject({ code }),
  result: Completeness,
});

/** It wakes the kernel, so that looking needs the right to use. */
export const ListVariables = endpoint('get /v1/sessions/{id}/variables', tag, use, {
  summary: 'The names of the code, with type, size and preview',
  result: z.object({ variables: z.array(Variable).readonly() }),
});

export const ReadHistory = endpoint('get /v1/sessions/{id}/history', tag, view, {
  summary: 'The cells that were run',
  result: z.object({ history: z.array(HistoryEntry).readonly() }),
});
