/** Tools, skills, artifacts and packages as the API describes them. */

import { z } from 'zod';

/** What a tool takes is described as its kernel sees it. */
export const ToolInfo = z
  .looseObject({
    name: z.string(),
    description: z.string(),
    kind: z.enum(['cli', 'mcp', 'http']),
    runs_on: z.enum(['sandbox', 'host']),
    requires_approval: z.boolean(),
  })
  .meta({ id: 'ToolInfo' });

export const ToolProblemList = z
  .array(
    z.object({
      where: z.string(),
      line: z.int().exactOptional(),
      name: z.string().exactOptional(),
      message: z.string(),
    }),
  )
  .readonly();

export const SkillInfo = z
  .looseObject({
    name: z.string(),
    description: z.string(),
    updatedAt: z.number(),
    shared: z.literal(true).exactOptional().meta({ description: 'Whether it is the operator’s, for all users.' }),
  })
  .meta({ id: 'SkillInfo' });

export const SkillProblemList = z
  .array(z.object({ name: z.string(), where: z.string(), line: z.int().optional(), reason: z.string() }))
  .readonly();

export const DepsResult = z
  .object({
    installed: z.array(z.string()).readonly(),
    failed: z.array(z.object({ requirement: z.string(), reason: z.string() })).readonly(),
    removed: z.array(z.string()).readonly().exactOptional(),
    note: z.string().exactOptional(),
  })
  .meta({ id: 'DepsResult' });

/** A change that is streamed: lines on how far it is, and its result as the last. */
export const DepsLine = z.discriminatedUnion('type', [
  z.object({ type: z.literal('progress'), text: z.string() }),
  z.object({ type: z.literal('result'), result: DepsResult }),
]);

export type DepsLine = z.infer<typeof DepsLine>;

export const ThingKind = z.enum(['tools', 'skills', 'artifacts', 'deps']);

export type ThingKind = z.infer<typeof ThingKind>;
