/** Describes a tool call in one line that a person can decide on, and the rule that would allow it. */

import { relative, resolve } from 'node:path';
import { z } from 'zod';
import { oneLine } from '../truncate.ts';

const MOST_SUMMARY = 10_000;
const MOST_PATTERN = 1000;
const Fields = z.looseObject({});
const nonEmptyText = z.string().min(1);

export function fieldOf(input: unknown, name: string): string | undefined {
  const fields = Fields.safeParse(input);
  return fields.success && Object.hasOwn(fields.data, name)
    ? nonEmptyText.safeParse(fields.data[name]).data
    : undefined;
}

const FILE_FIELDS = ['file_path', 'notebook_path', 'path'] as const;

function pathOf(input: unknown): string | undefined {
  return FILE_FIELDS.map((name) => fieldOf(input, name)).find((path) => path !== undefined);
}

/** Commands and code are shown in full, so that people can decide on them. */
export function summaryOf(tool: string, input: unknown, cwd: string): string {
  const command = fieldOf(input, 'command');
  if (command !== undefined) return command.slice(0, MOST_SUMMARY).toWellFormed();
  const code = fieldOf(input, 'code');
  if (code !== undefined && tool === 'mcp__cella__run_code') return code.slice(0, MOST_SUMMARY).toWellFormed();
  const path = pathOf(input);
  if (path !== undefined) return `${tool} ${oneLine(shownPath(path, cwd), 4096)}`;
  const other = fieldOf(input, 'url') ?? fieldOf(input, 'query') ?? fieldOf(input, 'description');
  if (other !== undefined) return `${tool} ${oneLine(other, 4096)}`;
  return `${tool} ${oneLine(JSON.stringify(input) ?? '', 1000)}`;
}

/** A short line for a list of tool calls. */
export function titleOf(tool: string, input: unknown, cwd: string): string {
  return oneLine(fieldOf(input, 'description') ?? summaryOf(tool, input, cwd), 200);
}

/** A rule for exactly this call, which a person may widen. Undefined if it does not fit in a line. */
export function patternOf(input: unknown, cwd: string): string | undefined {
  const path = pathOf(input);
  const pattern = fieldOf(input, 'command') ?? (path === undefined ? fieldOf(input, 'url') : shownPath(path, cwd));
  return pattern === undefined || pattern.length > MOST_PATTERN ? undefined : pattern;
}

/** Relative to the workspace; undefined if it lies outside. */
export function workspacePath(path: string, cwd: string): string | undefined {
  const inside = relative(cwd, resolve(cwd, path));
  return inside === '' || inside === '..' || inside.startsWith('../') ? undefined : inside;
}

function shownPath(path: string, cwd: string): string {
  return workspacePath(path, cwd) ?? path;
}
