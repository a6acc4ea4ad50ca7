/** Tools, skills, artifacts and packages as the API describes them, and the rules for their names. */

import { z } from 'zod';
import { CellaError } from './errors.ts';

const MOST_CHARACTERS = 128;
/** A file system's names have 255 bytes, and what is being written has an ending of its own. */
const MOST_BYTES = 200;

/** The name in its one spelling, or INVALID_NAME. `what` is said in the error: "artifact". */
export function checkName(name: unknown, what: string): string {
  if (typeof name !== 'string') throw invalidName(what, String(name), 'it must be text');
  const problem = nameProblem(name);
  if (problem !== undefined) throw invalidName(what, name, problem);
  return name.normalize('NFC');
}

export const isName = (name: string): boolean => nameProblem(name) === undefined;

function nameProblem(name: string): string | undefined {
  if (name === '') return 'it is empty';
  if (!name.isWellFormed()) return 'it holds a lone surrogate';
  if ([...name].length > MOST_CHARACTERS || Buffer.byteLength(name.normalize('NFC')) > MOST_BYTES) {
    return `it is longer than ${MOST_CHARACTERS} characters or ${MOST_BYTES} bytes`;
  }
  if (/[/\\]/.test(name)) return 'it holds a path separator';
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name)) return 'it holds a control character';
  if (name.startsWith('.')) return 'it begins with a dot';
  if (name.trim() !== name) return 'it begins or ends with a space';
  return undefined;
}

/** A name that code can write after a dot. Python compares identifiers in this spelling. */
export function checkIdentifier(name: unknown, what: string, taken: ReadonlySet<string> = new Set()): string {
  const checked = checkName(name, what).normalize('NFKC');
  if (!/^[\p{XIDS}_]\p{XIDC}*$/u.test(checked) || checked.startsWith('_')) {
    throw invalidName(what, checked, 'it must be a Python name that does not begin with an underscore');
  }
  if (KEYWORDS.has(checked)) throw invalidName(what, checked, 'it is a word of Python itself');
  if (taken.has(checked)) throw invalidName(what, checked, 'it is the name of a method; choose another');
  return checked;
}

const KEYWORDS = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from global ' +
    'if import in is lambda nonlocal not or pass raise return try while with yield'
  ).split(' '),
);

function invalidName(what: string, name: string, why: string): CellaError {
  const shown = JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
  return new CellaError('INVALID_NAME', `${shown} cannot be used as ${what} name: ${why}.`, { details: { name } });
}

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
      line: z.int().optional(),
      name: z.string().optional(),
      message: z.string(),
    }),
  )
  .readonly();

export const SkillInfo = z
  .looseObject({
    name: z.string(),
    description: z.string(),
    updatedAt: z.number(),
    shared: z.literal(true).optional().meta({ description: 'Whether it is the operator’s, for all users.' }),
  })
  .meta({ id: 'SkillInfo' });

export const SkillProblemList = z
  .array(z.object({ name: z.string(), where: z.string(), line: z.int().optional(), reason: z.string() }))
  .readonly();

export const DepsResult = z
  .object({
    installed: z.array(z.string()).readonly(),
    failed: z.array(z.object({ requirement: z.string(), reason: z.string() })).readonly(),
    removed: z.array(z.string()).readonly().optional(),
    note: z.string().optional(),
  })
  .meta({ id: 'DepsResult' });
export type DepsResult = z.infer<typeof DepsResult>;

/** A change that is streamed: lines on how far it is, and its result as the last. */
export const DepsLine = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('progress'), text: z.string() }),
    z.object({ type: z.literal('result'), result: DepsResult }),
  ])
  .meta({ id: 'DepsProgress' });

export type DepsLine = z.infer<typeof DepsLine>;

export const NamespaceName = z.enum(['tools', 'skills', 'artifacts', 'deps']);

export type NamespaceName = z.infer<typeof NamespaceName>;
