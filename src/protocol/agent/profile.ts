/** What a person sets up for agents, under a name of their own: it is laid out before a turn, and holds no keys. */

import { z } from 'zod';

export const ProfileName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be 1 to 64 letters, digits and any of . _ -');

const MOST_TEXT = 200_000;
const word = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/, 'must be 1 to 64 letters, digits, - and _');
const textOf = z.string().max(MOST_TEXT);
const variables = z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string().max(32_768));

const few = <V extends z.ZodType>(values: V) =>
  z.record(word, values).refine((all) => Object.keys(all).length <= 64, 'may be 64 at most');

export const McpServerSettings = z.union([
  z.strictObject({
    type: z.literal('http'),
    url: z.url({ protocol: /^https?$/ }),
    headers: z.record(z.string().regex(/^[A-Za-z0-9-]+$/), z.string().max(8192)).optional(),
  }),
  z.strictObject({
    type: z.literal('stdio'),
    argv: z.array(z.string().max(32_768)).min(1).max(256),
    env: variables.optional(),
  }),
]);

export const SubagentSettings = z.strictObject({
  description: z.string().min(1).max(4096),
  prompt: textOf,
  tools: z.array(z.string().min(1).max(200)).max(256).optional(),
  model: z.string().min(1).max(200).optional(),
});

/** Relative, with `/`, and never out of the folder that it is put in. */
export const ProfilePath = z
  .string()
  .min(1)
  .max(1024)
  .refine((path) => !/^[/\\]|\0|\\/.test(path), 'must be a relative path with /')
  .refine((path) => !path.split('/').some((part) => ['', '.', '..'].includes(part)), 'must not leave its folder');

export const AgentProfile = z
  .strictObject({
    /** Beside the agent's own. */
    systemPrompt: textOf.optional(),
    /** What the agent is to heed in this workspace: the text of its rules file (CLAUDE.md, AGENTS.md). */
    rules: textOf.optional(),
    /** By name: the text of a SKILL.md. */
    skills: few(textOf).optional(),
    subagents: few(SubagentSettings).optional(),
    /** Commands of the agent by name: the text of each. */
    commands: few(textOf).optional(),
    mcpServers: few(McpServerSettings).optional(),
    /** Put into a workspace that has no such file. */
    files: z
      .record(ProfilePath, textOf)
      .refine((all) => Object.keys(all).length <= 256, 'may be 256 at most')
      .optional(),
  })
  .meta({ id: 'AgentProfile' });
export type AgentProfile = z.infer<typeof AgentProfile>;
