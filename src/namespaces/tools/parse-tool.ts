/** Parses the YAML of a tool. Errors name the file and the line. */

import { z } from 'zod';
import { YamlDocument } from '../../lib/yaml-document.ts';
import { CellaError } from '../../protocol/errors.ts';
import { MOST_YAML_BYTES, type ToolDefinition, toolSchemas } from './tool-definition.ts';

const KINDS = Object.keys(toolSchemas).join(', ');
/** Created once, as zod compiles a schema at its first use. */
const Kind = z.object({ type: z.keyof(z.object(toolSchemas)).default('cli') });

/** `where`: the path or the storage key of the definition, for errors. */
export function parseTool(text: string, where: string): ToolDefinition {
  if (Buffer.byteLength(text) > MOST_YAML_BYTES) {
    throw invalidTool(where, undefined, `it is larger than ${MOST_YAML_BYTES / 1024} kB`);
  }
  const document = YamlDocument.parse(text);
  if (!(document instanceof YamlDocument)) throw invalidTool(where, document.line, document.reason);
  const { value } = document;
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw invalidTool(where, 1, 'a tool is a mapping with `name`, `description` and `command`');
  }
  const kind = Kind.safeParse(value);
  if (!kind.success) throw invalidTool(where, document.lineOf(['type']), `type: must be one of ${KINDS}`);
  const parsed = toolSchemas[kind.data.type].safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw invalidTool(where, issue && lineOfIssue(document, issue), issue ? issueText(issue) : 'it has the wrong shape');
}

function lineOfIssue(document: YamlDocument, issue: z.core.$ZodIssue): number | undefined {
  const unknown = issue.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : [];
  return document.lineOf([...issue.path, ...unknown]);
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

function invalidTool(where: string, line: number | undefined, reason: string): CellaError {
  const at = line === undefined ? where : `${where}:${line}`;
  const message = `The tool in ${at} cannot be used: ${reason.replace(/\.$/, '')}.`;
  return new CellaError('TOOL_INVALID', message, { details: { where, line } });
}
