/** What a user has set up for an agent: prompt, rules, skills, subagents, commands, MCP servers and first files. */

import { z } from 'zod';
import { CellaError } from './errors.ts';
import { boundedList } from './parse.ts';
import { ModelName } from './turn.ts';

const MOST_ENTRIES = 1000;
const MOST_CHARACTERS = 1_048_576;

/** Strict, because names become file names and arguments of the agent. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

const text = z
  .string()
  .max(MOST_CHARACTERS, `must have at most ${MOST_CHARACTERS} characters`)
  .refine((value) => !value.includes('\0') && value.isWellFormed(), 'must be text without null bytes');

export const ProfileName = z
  .string()
  .regex(NAME, 'must be a name of 1 to 64 letters, digits, _ and -, that begins with a letter or digit');

/** A path in the workspace: any path that does not lead out of it. */
const ProfilePath = z
  .string()
  .min(1)
  .max(1024)
  .refine(leadsInside, 'must be a path in the workspace: relative, with /, and without ..');

const Variable = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be the name of a variable');
const Header = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, 'must be the name of a header');
const headerValue = text.refine((value) => !/[\r\n]/.test(value), 'must be one line');
const webAddress = z.url({ protocol: /^https?$/ }).max(4096);

export const McpServer = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('http'), url: webAddress, headers: z.record(Header, headerValue).optional() }),
  z.strictObject({
    type: z.literal('stdio'),
    argv: boundedList(z.array(text).min(1).max(256), 256),
    env: z.record(Variable, text).optional(),
  }),
]);
export type McpServer = z.infer<typeof McpServer>;

const Subagent = z.strictObject({
  /** When the agent should use it. */
  description: text,
  prompt: text,
  tools: boundedList(z.array(z.string().min(1).max(200)).max(MOST_ENTRIES), MOST_ENTRIES).optional(),
  model: ModelName.optional(),
});

const named = <T extends z.ZodType>(value: T) => z.record(ProfileName, value).refine(fewEnough, tooMany).optional();
const tooMany = `must have at most ${MOST_ENTRIES} entries`;

export const AgentProfile = z.strictObject({
  systemPrompt: text.optional(),
  /** Rules by name: Markdown that the agent reads at the start of each conversation. */
  rules: named(text),
  /** The text of each SKILL.md, by the skill's name. */
  skills: named(text),
  subagents: named(Subagent),
  /** The prompt behind each `/name`. */
  commands: named(text),
  mcpServers: named(McpServer),
  /** The first files of a workspace. Existing files are kept. */
  files: z
    .record(ProfilePath, z.union([text, z.strictObject({ base64: z.base64() })]))
    .refine(fewEnough, tooMany)
    .optional(),
});
export type AgentProfile = z.infer<typeof AgentProfile>;

/** Throws `INVALID_NAME` for a bad name, otherwise `INVALID_REQUEST`, with the path in the profile. */
export function parseProfile(input: unknown): AgentProfile {
  const parsed = AgentProfile.safeParse(input);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = issue?.path.map(String) ?? [];
  const ofName = issue?.code === 'invalid_key' && issue.origin === 'record';
  const why = ofName ? (issue.issues[0]?.message ?? issue.message) : (issue?.message ?? 'it cannot be read');
  const shown = path.map((part) => (NAME.test(part) ? part : JSON.stringify(part.slice(0, 80)))).join('.');
  const message = `Invalid profile: ${shown === '' ? '' : `${shown} `}${why}.`;
  throw new CellaError(ofName ? 'INVALID_NAME' : 'INVALID_REQUEST', message, { details: { path } });
}

function fewEnough(record: Readonly<Record<string, unknown>>): boolean {
  return Object.keys(record).length <= MOST_ENTRIES;
}

function leadsInside(path: string): boolean {
  if (path.includes('\0') || !path.isWellFormed() || path.startsWith('/') || path.endsWith('/')) return false;
  return path.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && part.length <= 200);
}

export const NamedProfile = z
  .object({ name: ProfileName, updatedAt: z.number(), profile: AgentProfile })
  .meta({ id: 'NamedProfile' });

export type NamedProfile = z.infer<typeof NamedProfile>;
