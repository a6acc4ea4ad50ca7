/** What can be asked about the names of a session. */

import { z } from 'zod';
import { Completeness, Completion, HistoryEntry, Inspection, Variable } from '../kernel-state.ts';
import { endpoint, mayUse, mayView } from './endpoint.ts';

const introspectionTag = 'Introspection';
const code = z.string().max(1_000_000);
const At = z.strictObject({
  code,
  cursor: z.int().min(0).optional().meta({ description: 'UTF-16 offset; the end by default.' }),
});

export const CompleteCode = endpoint('post /v1/sessions/{id}/complete', introspectionTag, mayUse, {
  summary: 'What may stand at the cursor',
  body: At,
  result: Completion,
});

export const InspectCode = endpoint('post /v1/sessions/{id}/inspect', introspectionTag, mayUse, {
  summary: 'What the name at the cursor is',
  body: At,
  result: Inspection,
});

export const IsComplete = endpoint('post /v1/sessions/{id}/is-complete', introspectionTag, mayUse, {
  summary: 'Whether code is a whole cell',
  body: z.strictObject({ code }),
  result: Completeness,
});

/** It wakes the kernel, so that looking needs the right to use. */
export const ListVariables = endpoint('get /v1/sessions/{id}/variables', introspectionTag, mayUse, {
  summary: 'The names of the code, with type, size and preview',
  result: z.object({ variables: z.array(Variable).readonly() }),
});

export const ReadHistory = endpoint('get /v1/sessions/{id}/history', introspectionTag, mayView, {
  summary: 'The cells that were run',
  result: z.object({ history: z.array(HistoryEntry).readonly() }),
});
