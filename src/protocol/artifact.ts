/** What is known of an artifact beside its bytes. */

import { z } from 'zod';

/** What it comes back as: text, bytes, a JSON value, a pandas frame, a picture of a figure, or a file. */
export const ArtifactType = z.enum(['text', 'bytes', 'json', 'frame', 'figure', 'file']);
export type ArtifactType = z.infer<typeof ArtifactType>;

export const ArtifactFacts = z.strictObject({
  type: ArtifactType,
  mediaType: z.string().min(1).max(255),
  description: z.string().max(10_000).default(''),
  /** Any JSON object. */
  metadata: z.record(z.string(), z.json()).default({}),
});
export type ArtifactFacts = z.infer<typeof ArtifactFacts>;

export const ArtifactInfo = ArtifactFacts.extend({
  name: z.string(),
  size: z.int().min(0),
  sha256: z.string(),
  /** Milliseconds since 1970. */
  createdAt: z.number(),
  updatedAt: z.number(),
});
export type ArtifactInfo = z.infer<typeof ArtifactInfo>;
