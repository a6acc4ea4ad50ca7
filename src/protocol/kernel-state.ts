/** The state of a kernel. */

import { z } from 'zod';

export const Lost = z.object({ name: z.string(), reason: z.string() });

export const CheckpointInfo = z
  .object({
    id: z.string(),
    name: z.string().exactOptional(),
    kind: z.enum(['live', 'durable']),
    automatic: z.boolean(),
    createdAt: z.number(),
    execution: z.int(),
    bytes: z.int().exactOptional(),
    python: z.string().exactOptional(),
    saved: z.array(z.string()).readonly().exactOptional(),
    lost: z.array(Lost).readonly().exactOptional(),
    gone: z.string().exactOptional(),
  })
  .meta({ id: 'Checkpoint' });

export const Completion = z
  .object({
    matches: z.array(z.object({ text: z.string(), type: z.string() })).readonly(),
    start: z.int(),
    end: z.int(),
  })
  .meta({ id: 'Completion' });

export const Inspection = z
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

export const Completeness = z
  .discriminatedUnion('status', [
    z.object({ status: z.literal('complete') }),
    z.object({ status: z.literal('incomplete'), indent: z.string() }),
    z.object({ status: z.literal('invalid'), message: z.string() }),
  ])
  .meta({ id: 'Completeness' });

export const Variable = z
  .object({
    name: z.string(),
    type: z.string(),
    size: z.number(),
    length: z.string().exactOptional(),
    preview: z.string(),
  })
  .meta({ id: 'Variable' });

export const HistoryEntry = z
  .object({
    execution: z.int(),
    code: z.string(),
    status: z.enum(['ok', 'error', 'timeout', 'interrupted', 'died']),
  })
  .meta({ id: 'HistoryEntry' });

export const AgentInfo = z
  .object({
    agentKey: z.string(),
    state: z.enum(['live', 'hibernated']),
    holder: z.object({ pid: z.int(), since: z.number() }).exactOptional(),
    pid: z.int().exactOptional(),
    memoryBytes: z.number().exactOptional(),
    idleMs: z.number(),
    lastSave: z.object({ id: z.string(), at: z.number() }).exactOptional(),
    executions: z.int(),
    workspaceOf: z.string().exactOptional(),
  })
  .meta({ id: 'AgentInfo' });
