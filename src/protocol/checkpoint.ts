/** Durable checkpoints: what a manifest says of one, and the parts that a kernel makes it of. */

import { z } from 'zod';

export const FORMAT = 1;

const lostName = z.strictObject({ name: z.string(), reason: z.string() });
export type LostName = z.infer<typeof lostName>;

/**
 * One part of a checkpoint that can be loaded without the others. Only a kernel knows what its bytes mean: the host
 * stores them, checks that they are whole, and never takes them apart.
 */
export const Segment = z.strictObject({
  /** How a kernel reads the bytes. */
  kind: z.string().min(1).max(40),
  /** The names that come back with it. */
  names: z.array(z.string()),
  /** Whether another minor version of Python can read it. */
  portable: z.boolean(),
  bytes: z.int().min(0),
  /** Of the bytes, in hexadecimal. */
  sha256: z.string().length(64),
});
export type Segment = z.infer<typeof Segment>;

export const Manifest = z.strictObject({
  format: z.literal(FORMAT),
  id: z.string().min(1).max(64),
  /** What a person calls it; automatic saves have none. */
  name: z.string().min(1).max(200).optional(),
  /** `save`: made by itself for recovery and hibernation. `checkpoint`: asked for. */
  kind: z.enum(['save', 'checkpoint']),
  /** Milliseconds since 1970. */
  createdAt: z.int().min(0),
  /** The version that wrote it, such as 3.11.2. */
  python: z.string(),
  /** How many executions the session had had. */
  execution: z.int().min(0),
  bytes: z.int().min(0),
  saved: z.array(z.string()),
  lost: z.array(lostName),
  /** In the order in which they lie in the data, one after the other. */
  segments: z.array(Segment),
});
export type Manifest = z.infer<typeof Manifest>;
