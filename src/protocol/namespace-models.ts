/** Tools, skills, artifacts and packages as the API describes them, and the rules for their names. */

import { z } from 'zod';
import { CellaError } from './errors.ts';

const MOST_CHARACTERS = 128;
/** File names have at most 255 bytes, and files that are being written have an additional suffix. */
const MOST_BYTES = 200;

/** Returns the normalized name, or throws INVALID_NAME. `what` names the object in the error: "artifact". */
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
  if (/[/\\]/.test(name)) return 'it contains a path separator';
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name)) return 'it contains a control character';
  if (name.startsWith('.')) return 'it begins with a dot';
  if (name.trim() !== name) return 'it begins or ends with a space';
  return undefined;
}

/** A name that code can write after a dot. Python normalizes identifiers in the same way. */
export function checkIdentifier(name: unknown, what: string, taken: ReadonlySet<string> = new Set()): string {
  const checked = checkName(name, what).normalize('NFKC');
  if (!/^[\p{XIDS}_]\p{XIDC}*$/u.test(checked) || checked.startsWith('_')) {
    throw invalidName(what, checked, 'it must be a Python name that does not begin with an underscore');
  }
  if (KEYWORDS.has(checked)) throw invalidName(what, checked, 'it is a Python keyword');
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

/** What `load` returns: text, bytes, a JSON value, a pandas frame, a picture of a figure, or a file. */
export const ArtifactType = z.enum(['text', 'bytes', 'json', 'frame', 'figure', 'file']);
export type ArtifactType = z.infer<typeof ArtifactType>;

/** Whether its bytes are text that a person can read. */
export function isTextArtifact({ type, mediaType }: Pick<ArtifactFacts, 'type' | 'mediaType'>): boolean {
  return type === 'text' || type === 'json' || /^text\/|[/+](json|xml|yaml)\s*(;|$)/.test(mediaType);
}

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

export const ItemType = z.enum(['string', 'integer', 'number', 'boolean']);
export type ItemType = z.infer<typeof ItemType>;
export const ParameterType = z.enum([...ItemType.options, 'array', 'object', 'any']);
export type ParameterType = z.infer<typeof ParameterType>;

const Json = z.json();

/** What callers see of an argument, for all kinds of tools. */
export const ToolParameter = z
  .object({
    name: z.string(),
    type: ParameterType,
    items: ItemType.optional().meta({ description: 'The type of the items, if the type is `array`.' }),
    description: z.string(),
    required: z.boolean(),
    default: Json.optional(),
    enum: z.array(Json).readonly().optional(),
    positional: z.boolean().meta({ description: 'Whether it may be passed by position.' }),
    variadic: z.boolean().meta({ description: 'Whether it takes all remaining positional arguments.' }),
  })
  .meta({ id: 'ToolParameter' });
export type ToolParameter = z.infer<typeof ToolParameter>;

/** As code writes them: `path, *names, limit=10`, or `limit: integer = 10` with types. */
export function writeParameters(parameters: readonly ToolParameter[], { types = false } = {}): string {
  const words = parameters.map(({ name, type, items, required, default: preset, variadic }) => {
    const typed = types ? `: ${variadic ? (items ?? type) : type}` : '';
    if (variadic) return `*${name}${typed}`;
    return `${name}${typed}${required ? '' : `${types ? ' = ' : '='}${writeDefault(preset)}`}`;
  });
  return words.join(', ');
}

/** As in Python source. */
export function writeSkillParameters(parameters: readonly SkillParameter[]): string {
  const words = parameters.map(({ name, kind, annotation, default: preset }) => {
    const stars = kind === 'var_positional' ? '*' : kind === 'var_keyword' ? '**' : '';
    const typed = annotation === undefined ? `${stars}${name}` : `${stars}${name}: ${annotation}`;
    if (preset === undefined) return typed;
    return annotation === undefined ? `${typed}=${preset}` : `${typed} = ${preset}`;
  });
  return words.join(', ');
}

function writeDefault(preset: ToolParameter['default']): string {
  if (preset === undefined || preset === null) return 'None';
  return typeof preset === 'boolean' ? (preset ? 'True' : 'False') : JSON.stringify(preset);
}

const parameters = z.array(ToolParameter).readonly();

export const RecipeInfo = z
  .object({ name: z.string(), description: z.string(), parameters })
  .meta({ id: 'RecipeInfo' });
export type RecipeInfo = z.infer<typeof RecipeInfo>;

export const ToolInfo = z
  .object({
    name: z.string(),
    description: z.string(),
    tags: z.array(z.string()).readonly(),
    kind: z.enum(['cli', 'mcp', 'http']),
    runs_on: z.enum(['sandbox', 'host']),
    requires_approval: z.boolean(),
    parameters,
    recipes: z.array(RecipeInfo).readonly(),
  })
  .meta({ id: 'ToolInfo' });
export type ToolInfo = z.infer<typeof ToolInfo>;

/** A definition that cannot be used, and why. */
export const ToolProblem = z.object({
  where: z.string(),
  line: z.int().optional(),
  /** The name of the tool, if it is known. */
  name: z.string().optional(),
  message: z.string(),
});
export type ToolProblem = z.infer<typeof ToolProblem>;

export const SkillParameter = z
  .object({
    name: z.string(),
    kind: z.enum(['positional_only', 'positional_or_keyword', 'var_positional', 'keyword_only', 'var_keyword']),
    annotation: z.string().optional().meta({ description: 'As written in the source.' }),
    default: z.string().optional().meta({ description: 'As written in the source.' }),
    required: z.boolean(),
  })
  .meta({ id: 'SkillParameter' });
export type SkillParameter = z.infer<typeof SkillParameter>;

export const SkillInfo = z
  .object({
    name: z.string(),
    description: z.string(),
    parameters: z.array(SkillParameter).readonly(),
    updatedAt: z.number().meta({ description: 'Milliseconds since 1970.' }),
    shared: z
      .literal(true)
      .optional()
      .meta({ description: 'Whether it is the operator’s: other users can use it, but not change it.' }),
  })
  .meta({ id: 'SkillInfo' });
export type SkillInfo = z.infer<typeof SkillInfo>;

export const Skill = SkillInfo.extend({ source: z.string() }).meta({ id: 'Skill' });
export type Skill = z.infer<typeof Skill>;

export const NewSkill = z.strictObject({
  name: z.string().min(1).max(200),
  source: z.string().max(1_000_000),
  /** Becomes the docstring of the module. Without it, the docstrings of the source are used. */
  description: z.string().max(4000).optional(),
});
export type NewSkill = z.infer<typeof NewSkill>;

/** A skill in the storage that cannot be used, for example because its file was edited and is not valid. */
export const SkillProblem = z.object({
  name: z.string(),
  /** A path, or a key. */
  where: z.string(),
  line: z.int().optional(),
  reason: z.string(),
});
export type SkillProblem = z.infer<typeof SkillProblem>;

export const DepsStatus = z.object({
  requirements: z.array(z.string()).readonly(),
  /** The Python of these kernels, such as `cp311-x86_64`. */
  python: z.string(),
  /** Whether all requirements are installed for this Python. */
  installed: z.boolean(),
});
export type DepsStatus = z.infer<typeof DepsStatus>;

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
