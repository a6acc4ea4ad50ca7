/** Parses the YAML of a tool. Errors name the file and the line. */

import { type Document, isMap, isNode, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { type ToolDefinition, toolSchemas } from './definition.ts';
import { MOST_YAML_BYTES } from './definition-files.ts';

/** Of all that aliases stand for: a few lines of them can mean gigabytes. */
const MOST_ALIASES = 100;
const KINDS = Object.keys(toolSchemas).join(', ');
/** Made once: zod compiles a schema at its first use. */
const Kind = z.object({ type: z.keyof(z.object(toolSchemas)).default('cli') });

/** `where` is what a person is to look at: a path, or a key of the storage. */
export function parseTool(text: string, where: string): ToolDefinition {
  if (Buffer.byteLength(text) > MOST_YAML_BYTES) {
    throw invalidTool(where, undefined, `it is larger than ${MOST_YAML_BYTES / 1024} kB`);
  }
  const lines = new LineCounter();
  const { document, value } = readYaml(text, where, lines);
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw invalidTool(where, 1, 'a tool is a mapping with `name`, `description` and `command`');
  }
  const kind = Kind.safeParse(value);
  if (!kind.success) throw invalidTool(where, lineOf(document, ['type'], lines), `type: must be one of ${KINDS}`);
  const parsed = toolSchemas[kind.data.type].safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw invalidTool(
    where,
    issue && lineOfIssue(document, issue, lines),
    issue ? issueText(issue) : 'it has the wrong shape',
  );
}

function readYaml(text: string, where: string, lines: LineCounter): { document: Document; value: unknown } {
  try {
    const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true });
    const error = document.errors[0];
    if (error !== undefined) throw invalidTool(where, lines.linePos(error.pos[0]).line, firstLine(error.message));
    return { document, value: document.toJS({ maxAliasCount: MOST_ALIASES }) };
  } catch (error) {
    if (error instanceof CellaError) throw error;
    // Too many aliases, or more nesting than the stack holds.
    throw invalidTool(where, undefined, firstLine(error instanceof Error ? error.message : String(error)));
  }
}

function lineOfIssue(document: Document, issue: z.core.$ZodIssue, lines: LineCounter): number | undefined {
  const unknown = issue.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : [];
  return lineOf(document, [...issue.path, ...unknown], lines);
}

/** Of the key, else of the deepest part above it that is there. */
function lineOf(document: Document, path: readonly PropertyKey[], lines: LineCounter): number | undefined {
  let node: unknown = document.contents;
  let found: unknown = node;
  for (const step of path) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && key.value === step);
      [found, node] = [pair?.key ?? found, pair?.value];
    } else if (isSeq(node)) {
      node = node.items[Number(step)];
      found = node ?? found;
    }
  }
  return isNode(found) && found.range ? lines.linePos(found.range[0]).line : undefined;
}

function issueText(issue: z.core.$ZodIssue): string {
  const path = issue.path.map(String).join('.');
  const text =
    issue.code === 'unrecognized_keys'
      ? `there is no field ${issue.keys.map((key) => `\`${key}\``).join(', ')}`
      : issue.code === 'invalid_key'
        ? (issue.issues[0]?.message ?? issue.message)
        : issue.message;
  return path === '' ? text : `${path}: ${text}`;
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}

function invalidTool(where: string, line: number | undefined, reason: string): CellaError {
  const place = line === undefined ? where : `${where}:${line}`;
  const message = `The tool in ${place} cannot be used: ${reason.replace(/\.$/, '')}.`;
  return new CellaError('TOOL_INVALID', message, { details: { where, ...(line === undefined ? {} : { line }) } });
}
