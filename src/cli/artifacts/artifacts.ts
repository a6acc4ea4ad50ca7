/** What can be looked at and changed of the artifacts of a storage, from a command line and in a chat. */

import type { ArtifactInfo } from '../../protocol/namespace-models.ts';
import type { ArtifactsApi } from '../../session/api.ts';
import { Exit } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import { escapeControls, formatAgo, formatSize, formatTime } from '../format.ts';
import { firstLine } from '../skills/skills.ts';

const columns = [
  { title: 'NAME' },
  { title: 'TYPE' },
  { title: 'SIZE', align: 'right' as const },
  { title: 'CHANGED' },
  { title: 'DESCRIPTION' },
];

export async function list(artifacts: ArtifactsApi, report: CommandOutput): Promise<number> {
  const all = await artifacts.list();
  const facts = { artifacts: all };
  if (all.length === 0) {
    await report.empty(facts, 'There are no artifacts. `cella artifacts put NAME FILE` keeps one.');
    return Exit.ok;
  }
  await report.table(facts, columns, all.map(toRow));
  return Exit.ok;
}

/** What is known of it, without its content. */
export async function show(artifacts: ArtifactsApi, name: string, report: CommandOutput): Promise<number> {
  const artifact = await artifacts.get(name);
  const { type, mediaType, size, sha256, createdAt, updatedAt, description, metadata } = artifact;
  const facts = [
    ['type', `${type} (${mediaType})`],
    ['size', formatSize(size)],
    ['sha256', sha256],
    ['made', formatTime(createdAt)],
    ['changed', formatTime(updatedAt)],
    ...(description === '' ? [] : [['about', escapeControls(description)]]),
    ...(Object.keys(metadata).length === 0 ? [] : [['metadata', escapeControls(JSON.stringify(metadata))]]),
  ];
  const lines = facts.map(([fact = '', text = '']) => `  ${fact.padEnd(10)}${text}`);
  await report.result({ artifact }, [escapeControls(artifact.name), ...lines].join('\n'));
  return Exit.ok;
}

export async function remove(artifacts: ArtifactsApi, name: string, report: CommandOutput): Promise<number> {
  await artifacts.delete(name);
  await report.success({ deleted: name }, `Deleted the artifact ${JSON.stringify(name)}.`);
  return Exit.ok;
}

function toRow({ name, type, size, updatedAt, description }: ArtifactInfo): string[] {
  return [name, type, formatSize(size), formatAgo(updatedAt), firstLine(description)];
}
